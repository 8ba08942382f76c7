"""Checks that a catalog's database has all its tables, with the rows that every lake has."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from mere.errors import CatalogLost

_CREATED = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)")
# A table that is merely short of rows cannot be told from one of a smaller lake; these cannot be without them.
_LOST = """
SELECT 'mere_meta' WHERE (SELECT count(*) FROM mere_meta WHERE key IN ('root', 'lake_id', 'schema_version')) < 3
UNION ALL SELECT 'mere_refs' WHERE NOT EXISTS (SELECT 1 FROM mere_refs WHERE name = 'main')
UNION ALL SELECT 'mere_commits' WHERE NOT EXISTS (SELECT 1 FROM mere_commits) OR EXISTS
    (SELECT 1 FROM mere_refs r WHERE NOT EXISTS (SELECT 1 FROM mere_commits c WHERE c.seq = r.head))
UNION ALL SELECT 'mere_lines' WHERE NOT EXISTS (SELECT 1 FROM mere_lines) OR EXISTS
    (SELECT 1 FROM mere_refs r WHERE NOT EXISTS (SELECT 1 FROM mere_lines l WHERE l.line = r.line))
UNION ALL SELECT 'mere_changes'
    WHERE EXISTS (SELECT 1 FROM iceberg_tables) AND NOT EXISTS (SELECT 1 FROM mere_changes)
"""


def tables_of(migrations: Sequence[str]) -> list[str]:
    return [table for script in migrations for table in _CREATED.findall(script)]


def require_whole(
    what: object, expected: Sequence[str], found: Collection[str], rows: Callable[[str], list[tuple[Any, ...]]]
) -> None:
    """Of a database that is a lake's. `expected`: the tables of its version of the schema."""
    if missing := [table for table in expected if table not in found]:
        raise damaged(what, f"{_named(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    if lost := [table for (table,) in rows(_LOST)]:
        raise damaged(what, f"{_named(lost)} {'has' if len(lost) == 1 else 'have'} lost rows")


def _named(tables: Sequence[str]) -> str:
    return f"its {'table' if len(tables) == 1 else 'tables'} {', '.join(tables)}"


def damaged(what: object, why: str) -> CatalogLost:
    return CatalogLost(f"The catalog in {what} is damaged: {why}. Nothing was changed.")

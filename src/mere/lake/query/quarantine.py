"""`mere.quarantine`: what builds have set aside, counted by the tables that hold it, when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from mere.lake.iceberg.properties import STATE
from mere.lake.metadata_tables.sight import Sight
from mere.lake.metadata_tables.tables import QUARANTINE
from mere.lake.query.types import no_rows
from mere.names import AT, RULES, RUN, TableName
from mere.sql.spelling.standard import literal, quoted

if TYPE_CHECKING:
    from mere.lake.query.tables import TableSet


def quarantines(tables: TableSet, sight: Sight) -> Iterator[TableName]:
    """The tables of mere's own that hold such rows, of which the reader may know all."""
    for name in tables:
        owner = name.quarantined
        if owner is None or tables.is_view(name):
            continue
        if not (sight.may_read_all_of(owner) and sight.may_read_all_of(name)):
            continue
        if STATE in tables.metadata(name).properties:
            yield name


def counts(item: str) -> str:
    """A query of one of them: the rows by rule and run."""
    each = f"SELECT unnest({RULES}) AS rule, {RUN}, {AT} FROM {item}"
    return f"SELECT rule, {RUN}, max({AT}) AS last, count(*) AS held FROM ({each}) GROUP BY ALL"


def query(found: Iterable[TableName], place: Callable[[TableName], str]) -> str:
    """Of all of them, as the metadata table has it."""
    parts = [
        f"SELECT {', '.join(map(literal, (name.namespace, owner.name, name.name)))},"
        f" rule, {RUN}, last::TIMESTAMPTZ, held FROM ({counts(place(name))})"
        for name in found
        if (owner := name.quarantined) is not None
    ]
    names = ", ".join(quoted(field["name"]) for field in QUARANTINE["fields"])
    return f"SELECT * FROM ({' UNION ALL '.join(parts)}) AS q({names})" if parts else no_rows(QUARANTINE)

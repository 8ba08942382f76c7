"""What in a source's declaration decides what its columns mean, as a hash: not where the data is, how it is fetched
or how much of it may be bad."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mere.sources.pattern import fields_in_order
from mere.sources.source import Database, Files, Function, Rest, Source

# A variable at the start may be the whole address, or its first part.
_PLACE = re.compile(r"^(?:\$\{[^}]*\}|[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*)")


def meaning(source: Source, key: Sequence[str] = (), function: str = "") -> str:
    """`key`: of the table; `function`: a fingerprint of the one that is called."""
    how: list[Any] = [
        function,
        {name: [each.type, each.source, each.format] for name, each in source.columns.items()},
        source.keep_names,
        source.path_columns,
        asdict(source.trace),
    ]
    match source.feed:
        case Files() as files:
            how += [files.format, asdict(files.text)]
            # The fields of the path become columns; without a header, columns are known by their order alone.
            how += [fields_in_order(files.location) if source.path_columns else []]
            how += [[] if files.text.header else list(source.columns)]
        case Rest() as rest:
            what = _PLACE.sub("", rest.url), dict(rest.params)
            how += [*what, rest.records, rest.cursor, _by_key(rest.cursor, key)]
        case Database() as database:
            how += [database.table, database.query, database.cursor, _by_key(database.cursor, key)]
        case Function() as feed:
            how += [feed.cursor, _by_key(feed.cursor, key)]
    return hashlib.sha256(json.dumps(how, sort_keys=True).encode()).hexdigest()


def _by_key(cursor: str | None, key: Sequence[str]) -> list[str]:
    """Rows that come by a cursor go in by the key; without a cursor, it only says what is unique."""
    return list(key) if cursor else []

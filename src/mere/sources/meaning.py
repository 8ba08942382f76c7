"""The settings of a source that decide which files belong to it and what its columns mean; not how data is fetched, or
how much of it may be bad.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from mere.sources.pattern import below_base, without_query
from mere.sources.source import Database, Files, Function, Rest, Source

Settings = Mapping[str, str]  # as they are written, or a digest of what is not to be shown
FILES = "files"
_HIDDEN = ("function", "rest.url?", "rest.params.")
# A variable at the start may be the whole address, or its first part.
_PLACE = re.compile(r"^(?:\$\{[^}]*\}|[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*)")


def settings_of(source: Source, key: Sequence[str] = (), function: str = "") -> Settings:
    """`key`: of the table; `function`: a fingerprint of the one that is called."""
    found: dict[str, object] = {"function": _digest(function) if function else None}
    for name, column in source.columns.items():
        found |= {
            f"columns.{name}": column.type or "of any type",
            f"columns.{name}.from": column.source,
            f"columns.{name}.format": column.format,
        }
    found["names"] = "keep" if source.keep_names else "by_rule"
    found["path_columns"] = source.path_columns
    found |= {f"trace.{name}": value for name, value in asdict(source.trace).items()}
    found |= dict(_of_feed(source, key))
    given = {name: value for name, value in found.items() if value is not None}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}


def _of_feed(source: Source, key: Sequence[str]) -> Iterator[tuple[str, object]]:
    match source.feed:
        case Files() as files:
            yield FILES, without_query(files.location)
            yield "format", str(files.format)
            yield "start", f"{files.start:%Y-%m-%dT%H:%M}" if files.start else None
            yield from ((f"csv.{name}", value) for name, value in asdict(files.text).items())
            # Without a header, columns are known by their order alone.
            yield "columns", None if files.text.header else ", ".join(source.columns)
        case Rest() as rest:
            path, _, query = _PLACE.sub("", rest.url).partition("?")
            yield "rest.url", path
            yield "rest.url?", _digest(query) if query else None
            yield from ((f"rest.params.{name}", _digest(value)) for name, value in rest.params.items())
            yield "rest.records", rest.records
            yield "rest.cursor", rest.cursor
            yield "key", _by_key(rest.cursor, key)
        case Database() as database:
            yield "database.table", database.table
            yield "database.query", database.query
            yield "database.cursor", database.cursor
            yield "key", _by_key(database.cursor, key)
        case Function() as feed:
            yield "cursor", feed.cursor
            yield "key", _by_key(feed.cursor, key)


def meaning(settings: Settings) -> str:
    """A hash. Files are known by their names below the folder of the source, which may move."""
    known = {**settings, FILES: below_base(settings[FILES])} if FILES in settings else settings
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def differences(then: Settings, now: Settings) -> list[str]:
    """Each setting that changed, in words, with its old and new value."""
    changed = [name for name in sorted({*then, *now}) if then.get(name) != now.get(name)]
    return [_in_words(name, then.get(name), now.get(name)) for name in changed]


def _in_words(name: str, then: str | None, now: str | None) -> str:
    if name.startswith(_HIDDEN):
        return f"`{name.removesuffix('?')}` changed"
    was, is_now = ("not set" if value is None else value or "empty" for value in (then, now))
    return f"`{name}` was {was}, is now {is_now}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _by_key(cursor: str | None, key: Sequence[str]) -> str | None:
    """Rows that come by a cursor go in by the key; without a cursor, it only says what is unique."""
    return ", ".join(key) or None if cursor else None

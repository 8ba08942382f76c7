"""A source: YAML that says where data outside the lake is, and how it becomes rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mere import entries
from mere.audits.audit import DEFAULT_MAX_BAD, Audit, Custom, read_max_bad
from mere.audits.rules import Assert
from mere.entries import Entry
from mere.names import TableName
from mere.project.files.defaults import Defaults
from mere.project.files.inputs import with_lookups
from mere.project.files.settings import SOURCE_KEYS, Settings, name_by_path, read_settings
from mere.project.kinds import Kind
from mere.project.model import Model
from mere.project.problems import Problems
from mere.sources import declaration
from mere.sources.meaning import meaning, settings_of
from mere.sources.source import RESERVED, Feed, Files, Function, OnChange, Rest, Source

DEFAULT_SCHEMA = "bronze"
# The rule that a row can be read at all, and fits the declared types.
READABLE = "readable"
_NO_DEFAULTS = Defaults()


def read_source(path: Path, text: str, customs: Mapping[str, Custom], defaults: Defaults = _NO_DEFAULTS) -> Model:
    """The model, or a ProjectError with all that is wrong in the file. `path` is relative to the project."""
    problems = Problems()
    name = TableName("", "")
    with problems.gather():
        name = name_by_path(path, "source", DEFAULT_SCHEMA)
    entry = entries.parse(text, path)
    found: dict[str, Entry] = {}
    with problems.gather():
        found = entry.entries()
    given = defaults.of(path, name.namespace)
    settings = read_settings(entry, SOURCE_KEYS, customs, problems, Kind.SOURCE, given)
    feed: Feed = Function("")
    with problems.gather():
        feed = declaration.read_feed(entry, found)
        _check_location(found, feed)
    body = body_of(found, feed, "", problems, settings)
    problems.raise_any()
    return model_of(name, path.as_posix(), body, settings, found)


def body_of(found: Mapping[str, Entry], feed: Feed, code: str, problems: Problems, settings: Settings) -> Source:
    """`code`: of a function; the rest is what the settings say."""
    given: dict[str, Any] = {}
    described: dict[str, str] = {}
    with problems.gather():
        given["columns"], described = declaration.read_columns(found.get("columns"))
    with problems.gather():
        given["on_new_column"] = declaration.read_on_new_column(found.get("on_new_column"))
    with problems.gather():
        given["trace"] = declaration.read_trace(found.get("trace"), raw=isinstance(feed, Rest))
    with problems.gather():
        given["every"] = declaration.read_every(found.get("every"))
    with problems.gather():
        given["keep_names"] = "names" in found and found["names"].choice("by_rule", "keep") == "keep"
    with problems.gather():
        given["path_columns"] = "path_columns" not in found or found["path_columns"].flag()
    source = Source(feed, "", **given)
    settings.fields["columns"].update(described)
    with problems.gather():
        _check_trace(found, source)
    said = settings_of(source, settings.fields.get("key", ()), code)
    return replace(source, code=meaning(said), settings=said)


def model_of(
    name: TableName, file: str, body: Source, settings: Settings, found: Mapping[str, Entry], line: int = 1
) -> Model:
    max_bad = read_max_bad(found["max_bad"]) if "max_bad" in found else DEFAULT_MAX_BAD
    place = found["max_bad"].line if "max_bad" in found else line
    readable = Audit(Assert("true"), file, place, given_name=READABLE, quarantine=True, max_bad=max_bad)
    by_key = not isinstance(body.feed, Files) and body.feed.cursor is not None
    promised = settings.key.audits(Kind.SOURCE, by_key) if settings.key else ()
    fields = {**settings.fields, "audits": (readable, *promised, *settings.fields.get("audits", ()))}
    inputs = tuple(with_lookups((), fields["audits"]))
    return Model(name, Kind.SOURCE, file, replace(body, line=line), inputs, **fields)


def _check_location(found: Mapping[str, Entry], feed: Feed) -> None:
    if not isinstance(feed, Files) or "${" in feed.location:
        return
    from mere.sources.pattern import Pattern

    try:
        pattern = Pattern.parse(feed.location)
    except ValueError as error:
        raise found["files"].error(f"`files` cannot be `{feed.location}`: {error}") from error
    if feed.location.startswith(("http://", "https://")) and pattern.grain and feed.start is None:
        raise found["files"].error(
            "web addresses cannot be listed: say when they begin", "Write for example `start: 2024-01`."
        )


def _check_trace(found: Mapping[str, Entry], source: Source) -> None:
    names = [name.casefold() for name in source.trace.names]
    if taken := [name for name in names if name in RESERVED]:
        raise found["trace"].error(f"`{taken[0]}` cannot be a column: Iceberg keeps the name for itself", "Rename it.")
    if len(set(names)) < len(names):
        raise found["trace"].error("two columns of `trace` have one name", "Rename one of them.")
    for name in source.columns:
        if name.casefold() in names:
            raise found["columns"].error(
                f"`{name}` is a column that mere adds itself, to trace rows", "Rename one of them: `trace: {file: …}`."
            )
    replaces = isinstance(source.feed, Files) and source.feed.on_change is OnChange.REPLACE
    if replaces and source.trace.file is None:
        raise found["trace"].error(
            "without a column for the file its rows cannot be replaced when it changes",
            "Keep `trace.file`, or write `on_change: append` or `on_change: fail`.",
        )

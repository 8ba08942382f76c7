"""The settings of a model: the YAML in a SQL file's leading comment, a seed's .yaml, a decorator's arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from mere.audits.audit import Audit, Custom, parse
from mere.audits.rules import TIME
from mere.entries import Entry, nearest
from mere.errors import ConfigError, InvalidName
from mere.names import LOADS, QUARANTINE, TableName
from mere.project.files.columns import read_context, read_declared
from mere.project.files.key_audit import PromisedKey
from mere.project.kinds import SETTINGS_OF_SOME, TIME_SETTINGS, Kind
from mere.project.model import NullTimes, OnChange, Time
from mere.project.problems import Problems
from mere.project.rules import SWITCHABLE
from mere.sources import declaration
from mere.windows import Grain, instant

_EVERY = ("description", "columns", "contract", "owner", "tags", "key", "key_audit", "audits", "off")
_TABLE = ("partition_by", "sort_by", "properties")
MODEL_KEYS = ("kind", *_EVERY, *_TABLE, *TIME_SETTINGS, "latest_by", "updated_at", "compare", "dump", "inputs", "now")
SEED_KEYS = (*_EVERY, *_TABLE, "types", "delimiter")
SOURCE_KEYS = (*_EVERY, *_TABLE, *(key for key in declaration.KEYS if key not in _EVERY))
FUNCTION_KEYS = (*_EVERY, *_TABLE, *(key for key in declaration.OF_ALL if key not in _EVERY), "cursor")
INPUT_KEYS = ("time", "key", "on_change", "new_rows")

# Every engine and every shell takes such a name without quotes.
_PART = re.compile(r"[a-z][a-z0-9_]*")
NAME_RULE = (
    "The parts of a name start with a letter and have only a-z, 0-9 and _: gold.daily_revenue."
    f" Names that end in {QUARANTINE} or {LOADS} are kept for what belongs to other tables."
)

_COLUMN = r"[A-Za-z_][A-Za-z0-9_]*"
_TRANSFORM = re.compile(
    rf"{_COLUMN}|(years?|months?|days?|hours?)\(\s*{_COLUMN}\s*\)|(bucket|truncate)\(\s*\d+\s*,\s*{_COLUMN}\s*\)"
)


# Of an input: for each column of the model's key its expression, in the key's order or by the column's name.
DeclaredKey = tuple[str, ...] | Mapping[str, str]


class Place(NamedTuple):
    """How an input is read, as far as the user says it."""

    entry: Entry
    time: str | None = None
    on_change: OnChange | None = None
    new_rows: bool = False
    key: DeclaredKey = ()


@dataclass(frozen=True)
class Settings:
    kind: Kind = Kind.FULL
    inputs: Mapping[TableName, Place] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    delimiter: str = ","
    key: PromisedKey | None = None
    # What a model has under the same name.
    fields: Mapping[str, Any] = field(default_factory=dict)


def valid_name(schema: str, name: str) -> bool:
    return bool(_PART.fullmatch(schema) and _PART.fullmatch(name)) and not name.endswith((QUARANTINE, LOADS))


def name_by_path(path: Path, what: str, default_schema: str) -> TableName:
    """Of a file in the folder of `what`s, as in `seeds/schema/name.csv`."""
    parts = path.with_suffix("").parts[1:]
    schema, name = parts if len(parts) == 2 else (default_schema, parts[-1])
    if len(parts) > 2:
        raise ConfigError(
            f"a {what}'s folder is its schema", remedy=f"Move it to {what}s/<schema>/{path.name}.", file=path.as_posix()
        )
    if not valid_name(schema, name):
        raise ConfigError(f"`{schema}.{name}` cannot be a {what}'s name", remedy=NAME_RULE, file=path.as_posix())
    return TableName(schema, name)


def read_settings(
    entry: Entry,
    valid: Sequence[str],
    customs: Mapping[str, Custom],
    problems: Problems,
    kind: Kind = Kind.FULL,
    defaults: Mapping[str, Entry] = MappingProxyType({}),
) -> Settings:
    """Every key is looked at, whatever is wrong with the others. `kind`: where none is declared; `defaults`: settings
    from mere.yaml, which the entry's own go before."""
    found: dict[str, Entry] = {}
    with problems.gather():
        for key, value in entry.entries().items():
            if key in valid:
                found[key] = value
            else:
                problems.add(value.error(f"unknown key `{key}`", nearest(key, valid, "keys")))
    own = frozenset(found)
    of_kind = (*_EVERY, *_TABLE) if not kind.rules.declared else valid
    found |= {key: value for key, value in defaults.items() if key in of_kind and key not in own}
    with problems.gather():
        if "kind" in found:
            kind = Kind(found["kind"].choice(*(each for each in Kind if each.rules.declared)))
    # What a default says to models of other kinds it does not say to this one.
    found = {key: value for key, value in found.items() if key in own or key not in _idle(kind)}
    _refuse_without_effect(kind, found, problems)
    _check_key(kind, entry, found, problems)
    fields: dict[str, Any] = {"time": _time(entry, found, problems)} if kind.rules.windows else {}
    for key, reader in _READERS.items():
        if key in found:
            with problems.gather():
                fields[key] = reader(found[key])
    # What a source says of its columns is more than that: see `source`.
    columns = {key: value for key, value in found.items() if kind is not Kind.SOURCE or key != "columns"}
    fields |= read_declared(columns, kind, problems)
    settings: dict[str, Any] = {}
    with problems.gather():
        settings["key"] = PromisedKey.read(found)
    audits = _audits(found.get("audits"), customs, problems)
    _refuse_quarantine(kind, audits, problems)
    # Of a source, it depends on where its rows come from.
    if (promised := settings.get("key")) and kind is not Kind.SOURCE:
        audits = (*promised.audits(kind), *audits)
    fields["audits"] = audits
    for key, reader in {"inputs": _inputs, "types": _types, "delimiter": _delimiter}.items():
        if key in found:
            with problems.gather():
                settings[key] = reader(found[key])
    return Settings(kind, fields=fields, **settings)


def _check_key(kind: Kind, entry: Entry, found: Mapping[str, Entry], problems: Problems) -> None:
    if (why := kind.rules.needs_key) and "key" not in found:
        problems.add(found.get("kind", entry).error(why, "Write for example `key: order_id`."))
    if "key_audit" in entry.entries() and "key" not in found:
        message, remedy = "`key_audit` has no effect: there is no `key`", "Declare one, such as `key: id`."
        problems.add(found["key_audit"].error(message, remedy))
    if "updated_at" in found and "updated_at" in kind.rules.settings:
        with problems.gather():
            _check_updated_at(found)


def _check_updated_at(found: Mapping[str, Entry]) -> None:
    since = found["updated_at"].text()
    if "dump" in found:
        if found["dump"].text() != since:
            message = "a version begins with the first dump that shows it, and `updated_at` names another column"
            raise found["updated_at"].error(message, f"Leave it out, or write `updated_at: {found['dump'].text()}`.")
    elif "compare" in found:
        raise found["compare"].error(
            "`compare` beside `updated_at` would lose facts: a row that shows nothing new is not kept, and when"
            " an older one comes late, nobody knows that it held again afterwards",
            f"If the rows of one {since} are a full dump, write `dump: {since}` as well; or keep one of the two.",
        )


def _idle(kind: Kind) -> list[str]:
    """Settings that have no effect on models of a kind. Seeds and sources have settings of their own, some of them by
    the same names."""
    return [key for key in SETTINGS_OF_SOME if key not in kind.rules.settings] if kind.rules.declared else []


def _refuse_without_effect(kind: Kind, found: Mapping[str, Entry], problems: Problems) -> None:
    for key in _idle(kind):
        if key in found:
            problems.add(found[key].error(f"`{key}` has no effect: the model is {kind}", _idle_remedy(key)))


def _idle_remedy(key: str) -> str:
    return (
        "Remove it, or write `kind: incremental`." if key in TIME_SETTINGS else "Remove it, or choose another `kind`."
    )


def _time(entry: Entry, found: Mapping[str, Entry], problems: Problems) -> Time | None:
    if "time_column" not in found:
        problems.add(
            found.get("kind", entry).error(
                "an incremental model needs a `time_column`: the column that says which window a row is in",
                "Write for example `time_column: order_date`.",
            )
        )
        return None
    time: dict[str, Any] = {"column": "", "grain": Grain.DAY}
    readers: dict[str, Any] = {
        "time_column": lambda value: ("column", value.text()),
        "grain": lambda value: ("grain", Grain(value.choice(*Grain))),
        "start": lambda value: ("start", _instant(value)),
        "unfinished": lambda value: ("unfinished", value.choice("build", "skip") == "build"),
        "batch": lambda value: ("batch", value.count()),
        "context": lambda value: ("context", read_context(value)),
        "null_times": lambda value: ("nulls", NullTimes(value.choice(*NullTimes))),
    }
    for key in TIME_SETTINGS:
        if key in found:
            with problems.gather():
                name, value = readers[key](found[key])
                time[name] = value
    return Time(**time)


def _instant(entry: Entry) -> datetime:
    try:
        return instant(entry.text())
    except ValueError as error:
        raise entry.error(
            f"`{entry.key}` must be a date or a time", "Write for example `2024-01-01` or `2024-01-01T06:00`."
        ) from error


def _audits(entry: Entry | None, customs: Mapping[str, Custom], problems: Problems) -> tuple[Audit, ...]:
    audits = []
    for item in entry.items() if entry else []:
        with problems.gather():
            audits.append(parse(item, customs))
    return tuple(audits)


def _refuse_quarantine(kind: Kind, audits: Sequence[Audit], problems: Problems) -> None:
    taken = {TIME} if kind.rules.windows else set()
    for each in audits:
        if not each.quarantine:
            continue
        if not kind.rules.quarantines:
            message, remedy = f"a model of kind {kind} cannot quarantine rows", "Put the rule on a table that it reads."
        elif each.name in taken:
            message, remedy = f"another rule that quarantines is called {each.name}", "Give one of them a `name`."
        else:
            taken.add(each.name)
            continue
        problems.add(ConfigError(message, remedy=remedy, file=each.file, line=each.line))


def _inputs(entry: Entry) -> dict[TableName, Place]:
    inputs = {}
    for name, value in entry.entries().items():
        given = value.keys(*INPUT_KEYS)
        inputs[table_name(name, value)] = Place(
            value,
            given["time"].text() if "time" in given else None,
            OnChange(given["on_change"].choice(*OnChange)) if "on_change" in given else None,
            given["new_rows"].flag() if "new_rows" in given else False,
            declared_key(given["key"]) if "key" in given else (),
        )
    return inputs


def declared_key(entry: Entry) -> DeclaredKey:
    return _texts_by_name(entry) if entry.is_map else entry.texts()


def table_name(text: str, entry: Entry) -> TableName:
    try:
        return TableName.parse(text)
    except InvalidName as error:
        raise entry.error(error.message, error.remedy) from error


def _texts_by_name(entry: Entry) -> dict[str, str]:
    return {key: value.text() for key, value in entry.entries().items()}


def _types(entry: Entry) -> dict[str, str]:
    return {key: value.spark_type() for key, value in entry.entries().items()}


def _delimiter(entry: Entry) -> str:
    value = entry.value()
    text = {"\\t": "\t", "tab": "\t"}.get(str(value), str(value))
    if len(text) != 1:
        raise entry.error(
            "`delimiter` must be one character", 'Write for example `delimiter: ";"` or `delimiter: tab`.'
        )
    return text


def _partitions(entry: Entry) -> tuple[str, ...]:
    for item in entry.items():
        if not _TRANSFORM.fullmatch(item.text().strip()):
            raise item.error(
                f"`{entry.key}` cannot be `{item.text()}`",
                "Write a column, year(c), month(c), day(c), hour(c), bucket(16, c) or truncate(10, c).",
            )
    return tuple(text.strip() for text in entry.texts())


def _off(entry: Entry) -> dict[str, str]:
    reasons = {}
    for rule, value in entry.entries().items():
        if rule not in SWITCHABLE:
            raise value.error(f"there is no rule `{rule}` to switch off", nearest(rule, SWITCHABLE, "rules"))
        if not isinstance(value.value(), str) or not str(value.value()).strip():
            raise value.error(
                f"`{rule}` is switched off without a reason", f"Write one: `{rule}: the upstream adds columns often`."
            )
        reasons[rule] = value.text()
    return reasons


_READERS: dict[str, Any] = {
    "description": Entry.text,
    "owner": Entry.text,
    "tags": Entry.texts,
    "key": Entry.texts,
    "latest_by": Entry.text,
    "updated_at": Entry.text,
    "compare": Entry.texts,
    "dump": Entry.text,
    "partition_by": _partitions,
    "sort_by": Entry.texts,
    "properties": _texts_by_name,
    "now": lambda entry: Grain(entry.choice(*Grain)),
    "off": _off,
}

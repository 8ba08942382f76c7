"""Reads what a user writes about a source. Environment variables stay as written and are looked up when something is
fetched (see `variables`), so that a project can be read, checked and kept where they are not set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from mere.config import declared_s3, is_s3
from mere.entries import VARIABLE, Entry
from mere.names import parse_age
from mere.sources.pattern import without_query
from mere.sources.source import (
    Database,
    Declared,
    Files,
    Format,
    OnChange,
    OnNewColumn,
    Paging,
    Rest,
    Snapshots,
    Text,
    Trace,
)
from mere.windows import instant

FEEDS = ("files", "rest", "database")
OF_FILES = ("format", "csv", "on_change", "batch", "empty_files", "path_columns", "s3", "start", "snapshots")
OF_ALL = ("columns", "on_new_column", "max_bad", "names", "trace", "every")
KEYS = (*FEEDS, *OF_FILES, *OF_ALL)
COLUMN_KEYS = ("type", "from", "format", "optional", "description")
CSV_KEYS = ("delimiter", "quote", "escape", "header", "encoding", "null", "multiline")
_REST = ("url", "headers", "params", "records", "paging", "cursor", "since", "overlap")
REST_KEYS = (*_REST, "rate", "retries", "timeout", "largest")
PAGING_KEYS = ("page", "offset", "cursor", "link", "next", "first", "limit", "size")
DATABASE_KEYS = ("url", "table", "query", "cursor", "overlap", "partitions")
PARTITION_KEYS = ("column", "count")
TRACE_KEYS = ("file", "loaded_at", "run", "raw")

_ENCODINGS = ("utf-8", "iso-8859-1", "windows-1252")
_SUFFIXES = {".csv": Format.CSV, ".tsv": Format.CSV, ".txt": Format.CSV, ".jsonl": Format.JSONL}
_SUFFIXES |= {".ndjson": Format.JSONL, ".json": Format.JSON, ".parquet": Format.PARQUET}
_PACKED = (".gz", ".zst")
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(s|m|h)")
_SIZE = re.compile(r"(\d+)\s*(KB|MB|GB)")
_BYTES = {"KB": 10**3, "MB": 10**6, "GB": 10**9}
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def read_feed(entry: Entry, found: Mapping[str, Entry]) -> Files | Rest | Database:
    kinds = [key for key in FEEDS if key in found]
    if len(kinds) != 1:
        stated = f"has {' and '.join(f'`{kind}`' for kind in kinds)}" if kinds else "does not say where its data is"
        raise entry.error(f"the source {stated}", "Write one of `files:`, `rest:` and `database:`.")
    if kinds[0] != "files" and (idle := next((key for key in OF_FILES if key in found), None)):
        raise found[idle].error(f"`{idle}` has no effect: the source is not files", "Remove it.")
    if kinds[0] == "files":
        return read_files(found["files"], found)
    return _rest(found["rest"]) if kinds[0] == "rest" else _database(found["database"])


def read_files(entry: Entry, found: Mapping[str, Entry]) -> Files:
    location = entry.unexpanded().strip()
    _refuse_password(entry)
    format_ = Format(found["format"].choice(*Format)) if "format" in found else _format_of(location, entry)
    if "csv" in found and format_ is not Format.CSV:
        raise found["csv"].error(f"`csv` has no effect: the files are {format_}", "Remove it.")
    if "s3" in found and not is_s3(location) and not location.startswith("$"):
        raise found["s3"].error("`s3` has no effect: the files are not on S3", "Write `files: s3://bucket/…`.")
    tabs = Text(delimiter="\t") if ".tsv" in location else Text()
    return Files(
        location,
        format_,
        _text(found["csv"]) if "csv" in found else tabs,
        OnChange(found["on_change"].choice(*OnChange)) if "on_change" in found else OnChange.REPLACE,
        found["batch"].count() if "batch" in found else Files.batch,
        "empty_files" in found and found["empty_files"].choice("fail", "skip") == "skip",
        declared_s3(found["s3"]) if "s3" in found else None,
        _time(found["start"]) if "start" in found else None,
        Snapshots(found["snapshots"].choice(*Snapshots)) if "snapshots" in found else Snapshots.BATCH,
    )


def _format_of(location: str, entry: Entry) -> Format:
    name = without_query(location)
    for packed in _PACKED:
        name = name.removesuffix(packed)
    format_ = next((each for suffix, each in _SUFFIXES.items() if name.endswith(suffix)), None)
    if format_ is None:
        known = ", ".join(Format)
        raise entry.error("the format of the files is not clear from their names", f"Write `format:`: {known}.")
    return format_


def _text(entry: Entry) -> Text:
    given = entry.keys(*CSV_KEYS)
    read: dict[str, Callable[[Entry], Any]] = {
        "delimiter": _character,
        "quote": _character,
        "escape": _character,
        "header": Entry.flag,
        "encoding": lambda value: value.choice(*_ENCODINGS),
        "null": lambda value: str(getattr(value.node, "value", "")),  # the word NULL is a text here
        "multiline": Entry.flag,
    }
    return Text(**{key: read[key](value) for key, value in given.items()})


def _character(entry: Entry) -> str:
    value = str(entry.value())
    text = {"\\t": "\t", "tab": "\t"}.get(value, value)
    if len(text) != 1:
        raise entry.error(f"`{entry.key}` must be one character", 'Write for example `";"` or `tab`.')
    return text


def _rest(entry: Entry) -> Rest:
    given = entry.keys(*REST_KEYS)
    url = _required(entry, given, "url").unexpanded()
    _refuse_password(given["url"])
    # A variable at the start is the whole address, or its first part.
    if "${" in urlsplit(re.sub(r"^\$\{[^}]*\}", "https://host", url)).path:
        raise given["url"].error(
            "a variable in the path of `url` would be shown in messages, though its value may be secret",
            "Put it into `headers` or `params`; of the host it may be a part.",
        )
    cursor = given["cursor"].text() if "cursor" in given else None
    if ("since" in given) != (cursor is not None):
        raise entry.error(
            "`cursor` and `since` belong together: a field of the records, and the parameter to ask for later ones",
            "Give both, or neither.",
        )
    return Rest(
        url,
        _texts(given.get("headers")),
        _texts(given.get("params")),
        given["records"].text() if "records" in given else "",
        _paging(given["paging"]) if "paging" in given else Paging(),
        cursor,
        given["since"].text() if "since" in given else None,
        _age(given["overlap"]) if "overlap" in given else timedelta(),
        _rate(given["rate"]) if "rate" in given else None,
        given["retries"].count() if "retries" in given else Rest.retries,
        _age(given["timeout"]) if "timeout" in given else Rest.timeout,
        _bytes(given["largest"]) if "largest" in given else Rest.largest,
    )


def _paging(entry: Entry) -> Paging:
    given = entry.keys(*PAGING_KEYS)
    ways = [key for key in ("page", "offset", "cursor", "link") if key in given]
    if len(ways) != 1:
        raise entry.error("`paging` must name one way to the next page", "Write `page`, `offset`, `cursor` or `link`.")
    if ways[0] == "cursor" and "next" not in given:
        raise entry.error(
            "`cursor` needs `next`: where the answer has its next value",
            "Write for example `{cursor: after, next: meta.next}`.",
        )
    words = {key: given[key].text() for key in ("page", "offset", "cursor", "next", "limit") if key in given}
    numbers = {key: int(given[key].text()) for key in ("first", "size") if key in given}
    return Paging(**words, **numbers, link="link" in given and given["link"].flag())  # type: ignore[arg-type]


def _database(entry: Entry) -> Database:
    given = entry.keys(*DATABASE_KEYS)
    url = _required(entry, given, "url")
    _refuse_password(url)
    if ("table" in given) == ("query" in given):
        raise entry.error("a database needs a `table` or a `query`", "Write one of them.")
    if "overlap" in given and "cursor" not in given:
        raise given["overlap"].error("`overlap` has no effect without a `cursor`", "Name the column that only grows.")
    parts = given["partitions"].keys(*PARTITION_KEYS) if "partitions" in given else {}
    if parts and len(parts) != len(PARTITION_KEYS):
        raise given["partitions"].error("`partitions` needs a `column` and a `count`", "Write both.")
    return Database(
        url.unexpanded(),
        given["table"].text() if "table" in given else None,
        given["query"].text() if "query" in given else None,
        given["cursor"].text() if "cursor" in given else None,
        _overlap(given["overlap"]) if "overlap" in given else 0,
        parts["column"].text() if parts else None,
        parts["count"].count() if parts else 1,
    )


def _refuse_password(entry: Entry) -> None:
    written = VARIABLE.sub("", entry.unexpanded())
    if re.search(r"://[^/@]*:[^/@]+@", written) or re.search(r"[?&;]password=[^&;]", written, re.IGNORECASE):
        raise entry.error(f"`{entry.key}` holds a password", "Write ${NAME} for it.")


def _overlap(entry: Entry) -> timedelta | int:
    text = entry.text()
    return int(text) if text.isdecimal() else _age(entry)


def read_columns(entry: Entry | None) -> tuple[dict[str, Declared], dict[str, str]]:
    """What is declared of each column, and the descriptions."""
    declared: dict[str, Declared] = {}
    described: dict[str, str] = {}
    for name, value in entry.entries().items() if entry else ():
        if not value.is_map:
            declared[name] = Declared(value.spark_type())
            continue
        given = value.keys(*COLUMN_KEYS)
        declared[name] = Declared(
            given["type"].spark_type() if "type" in given else None,
            str(given["from"].value()) if "from" in given else None,
            given["format"].text() if "format" in given else None,
            "optional" in given and given["optional"].flag(),
        )
        if "description" in given:
            described[name] = given["description"].text()
    return declared, described


def read_trace(entry: Entry | None, *, raw: bool) -> Trace:
    """`raw`: the record as it came is kept unless somebody says otherwise."""
    default = Trace(raw="_raw" if raw else None)
    if entry is None:
        return default
    if not entry.is_map:
        return Trace(None, None, None, None) if not entry.flag() else default
    given = entry.keys(*TRACE_KEYS)
    names = {key: None if value.value() in (None, False) else value.text() for key, value in given.items()}
    return Trace(**{"raw": default.raw, **names})


def read_on_new_column(entry: Entry | None) -> OnNewColumn:
    return OnNewColumn(entry.choice(*OnNewColumn)) if entry else OnNewColumn.ADD


def read_every(entry: Entry | None) -> timedelta | None:
    return _age(entry) if entry else None


def _required(entry: Entry, given: Mapping[str, Entry], key: str) -> Entry:
    if key not in given:
        raise entry.error(f"`{entry.key}` needs `{key}`", f"Write `{key}: …` below it.")
    return given[key]


def _texts(entry: Entry | None) -> dict[str, str]:
    return {key: value.unexpanded() for key, value in entry.entries().items()} if entry else {}


def _age(entry: Entry) -> timedelta:
    age = parse_age(entry.text())
    if age is None:
        raise entry.error(f"`{entry.key}` must be a length of time", "Write for example `30s`, `10m` or `1h`.")
    return age


def _rate(entry: Entry) -> float:
    found = _RATE.fullmatch(entry.text())
    if not found or not float(found[1]):
        raise entry.error(f"`{entry.key}` must be requests in a time", "Write for example `5/s` or `100/m`.")
    return float(found[1]) / _SECONDS[found[2]]


def _bytes(entry: Entry) -> int:
    found = _SIZE.fullmatch(entry.text())
    if not found or not int(found[1]):
        raise entry.error(f"`{entry.key}` must be a number of bytes", "Write for example `500MB` or `2GB`.")
    return int(found[1]) * _BYTES[found[2]]


def _time(entry: Entry) -> datetime:
    try:
        return instant(entry.text())
    except ValueError as error:
        raise entry.error(f"`{entry.key}` must be a date", "Write for example `2024-01`.") from error

"""DuckDB's errors as sentences about the lake."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from mere.config import is_s3
from mere.errors import MereError, MetadataMissing, QueryError, StorageDenied, StorageUnreachable
from mere.lake.iceberg import manifests
from mere.lake.query import scans, views
from mere.lake.storage import room
from mere.lake.storage.s3 import CHECK_KEYS, CHECK_NETWORK, split

_NO_SCHEMA = re.compile(r'Table with name "(.+)" does not exist because schema "')
_NO_CATALOG = re.compile(r'Catalog "(.+)" does not exist')
_NO_FILE = ("No such file", "No files found", "HTTP 404")
_STATUS = re.compile(r"\(HTTP (\d{3})")
_NO_ANSWER = re.compile(r"error for HTTP|[Cc]ould not connect|[Tt]imeout|[Cc]onnection")
_CONFINED = re.compile(r'Cannot access (?:file|directory) "([^"]+)"')
_NO_ROOM = re.compile(r"No space left|Disk quota exceeded|File too large")
_WIDTH = 100  # of an excerpt


@dataclass(frozen=True)
class Details:
    """What DuckDB says of an error, by its setting errors_as_json."""

    kind: str
    message: str
    position: int | None
    missing: str | None  # the table, as it was written, that does not exist
    missing_catalog: str | None


def details(error: Exception) -> Details:
    text = str(error)
    try:
        found: Mapping[str, str] = json.loads(text[text.index("{") :])
    except ValueError:
        found = {"exception_message": re.sub(r"^[A-Z][A-Za-z ]* Error: ", "", text)}
    message = found.get("exception_message", text)
    position = found.get("position")
    missing = found.get("name") if found.get("type") == "Table" else None
    if schema := _NO_SCHEMA.search(message):
        missing = schema[1]
    catalog = _NO_CATALOG.search(message)
    return Details(
        kind=found.get("exception_type", ""),
        message=_one_sentence(message),
        position=int(position) if position and position.isdigit() else None,
        missing=missing,
        missing_catalog=catalog[1] if catalog else None,
    )


def _one_sentence(message: str) -> str:
    """Without stack traces, lists of overloads and advice about extensions."""
    text = re.split(r"\n\n|\n\t|\nStack Trace|\.? Detail: Python exception", message.strip())[0]
    text = re.sub(r"^arrow_scan: get_next failed\(\): (\w+: )*", "", text)
    text = re.sub(r"^Values list ", "Table ", re.sub(r"!$", ".", text, flags=re.MULTILINE))
    text = " ".join(text.split())
    return text if text.endswith((".", "?")) else f"{text}."


def excerpt(sql: str, position: int) -> str:
    """The line of the query at a position (in bytes), with a mark below it."""
    before = sql.encode()[:position].decode(errors="ignore")
    number, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1)
    line = sql.split("\n")[number - 1]
    cut = max(0, column - _WIDTH * 2 // 3)
    shown = ("…" if cut else "") + line[cut : cut + _WIDTH] + ("…" if len(line) > cut + _WIDTH else "")
    head = f"line {number}: "
    return f"{head}{shown}\n{' ' * (len(head) + column - cut + bool(cut))}^"


@contextmanager
def unbound(table: str, folders: Callable[[], Mapping[str, str]], is_view: bool) -> Iterator[None]:
    """Around the binding of one table or view, whose files are in these folders."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        found = details(error)
        if is_view:
            raise views.untranslatable(table, found.message) from error
        raise of_file(found, folders()) or scans.unreadable(table, found.message.removesuffix(".")) from error


def of_file(found: Details, folders: Mapping[str, str]) -> MereError | None:
    """The error, if it is about a file of one of these tables: by folder, the table's name."""
    for folder, table in folders.items():
        at = _file(folder, found.message)
        if at is None:
            continue
        if any(sign in found.message for sign in _NO_FILE):
            return MetadataMissing(
                f"{table} cannot be read: its file {at} is gone.",
                remedy="Put the file back from a backup, or go back to a commit that does not need it:"
                " mere revert --to COMMIT",
            )
        if status := _STATUS.search(found.message):
            kind = StorageDenied if status[1] in ("401", "403") else StorageUnreachable
            remedy = CHECK_KEYS if kind is StorageDenied else CHECK_NETWORK
            return kind(f"{table} cannot be read: S3 answers HTTP {status[1]} for {at}.", remedy=remedy)
        if is_s3(folder) and _NO_ANSWER.search(found.message):
            return StorageUnreachable(f"{table} cannot be read: S3 does not answer for {at}.", remedy=CHECK_NETWORK)
        return manifests.damaged(table, f"its file {at} is damaged. {found.message}")
    return None


def _file(folder: str, message: str) -> str | None:
    """The file of the folder that the message names; of one on S3 it may give the address of the request instead."""
    rest = r"/[^'\"]+\.(?:parquet|avro|orc|puffin|json)\b"
    if at := re.search(re.escape(folder) + rest, message):
        return at[0]
    if not is_s3(folder):
        return None
    _, key = split(folder)
    at = re.search(rf"https?://[^'\" ]*?/{re.escape(key)}({rest})", message)
    return folder + at[1] if at else None


def of_query(found: Details, sql: str, position: int | None) -> QueryError:
    """Any other error. Only where the query was being understood is the position one in its own text."""
    message = found.message
    if confined := _CONFINED.search(message):
        return scans.out_of_reach(confined[1])
    if "NameListToString" in message:
        return QueryError(
            "A table's name has at most three parts: ref.schema.table.",
            remedy='Quote a schema that has dots in its own name: main."eu.gold".orders',
        )
    if found.kind == "Parser" and message.startswith("syntax error"):
        message = message[0].upper() + message[1:]
    if position is not None and found.kind in ("Parser", "Binder", "Catalog"):
        message = f"{message}\n{excerpt(sql, position)}"
    return QueryError(message, remedy=room.REMEDY if _NO_ROOM.search(message) else None)

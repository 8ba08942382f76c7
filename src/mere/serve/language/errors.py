"""DuckDB's errors, and mere's own, as Postgres would word them."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mere.errors import MereError
from mere.lake.query import errors as duckdb_errors
from mere.names import near
from mere.serve.protocol.port import PgError

if TYPE_CHECKING:
    from sqlglot import exp

_LOG = logging.getLogger(__name__)
_OURS = re.compile(r"^(?:Python exception .* the UDF: ValueError: )?([0-9A-Z]{5}):(.*)", re.DOTALL)

# By the kind of DuckDB's error, and by words in its message: the first that fits.
_STATES: Sequence[tuple[str, str, str]] = (
    ("Out of Memory", "max_temp_directory_size|temp directory|offload", "53400"),
    ("Out of Memory", "", "53200"),
    ("Interrupt", "", "57014"),
    ("Conversion", "(date|time|timestamp) field value out of range", "22008"),
    ("Conversion", "specifier .* not recognized", "22023"),
    ("Conversion", r"out of range|overflow|doesn't fit|too large|Cannot cast .* because the value", "22003"),
    (
        "Conversion",
        r"(date|time|timestamp|interval).* (field value|format)|invalid (date|timestamp|time|interval)",
        "22007",
    ),
    ("Conversion", "", "22P02"),
    ("Out of Range", "", "22003"),
    ("Invalid Input", "out of range|[Oo]verflow", "22003"),
    ("Invalid Input", "parse|format specifier|strptime", "22007"),
    ("Invalid Input", r"[Ii]nvalid (regex|regular)|missing \)|RE2|repetition", "2201B"),
    ("Invalid Input", "More than one row returned by a subquery", "21000"),
    ("Invalid Input", "parameters? were provided|[Vv]alues were not provided", "08P01"),
    ("Invalid Input", "", "22023"),
    ("Parser", "expression depth", "54001"),
    ("Binder", "expression depth", "54001"),
    ("Parser", "", "42601"),
    ("Syntax", "", "42601"),
    ("Binder", "No function matches", "42883"),
    ("Binder", "Ambiguous reference", "42702"),
    ("Binder", "LIMIT/OFFSET cannot be negative", "2201W"),
    (
        "Binder",
        "must appear in the GROUP BY|cannot contain aggregates|aggregates? (functions? )?(are|is) not|cannot be nested",
        "42803",
    ),
    ("Binder", "window functions? (are|is) not|cannot contain window", "42P20"),
    ("Binder", "Cannot mix|Cannot compare|Cannot combine|not implicitly|explicit type cast|type mismatch", "42804"),
    ("Binder", "Duplicate alias|duplicate", "42712"),
    ("Binder", 'Referenced table ".*" not found', "42P01"),
    ("Binder", "[Rr]eferenced column|referenced that exists in the SELECT|not found in FROM", "42703"),
    ("Binder", "does not have a column|Could not find key", "42703"),
    ("Binder", "must return|only return one column|expects [0-9]+ columns|same number of result columns", "42601"),
    ("Binder", "term out of range|ORDER BY .* not in", "42P10"),
    ("Binder", "DISTINCT ON", "42P10"),
    ("Binder", "recursive", "42P19"),
    ("Binder", "", "42601"),
    ("Catalog", "Function|Macro", "42883"),
    ("Catalog", "Type", "42704"),
    ("Catalog", "", "42P01"),
    ("Mismatch Type", "", "42804"),
    ("Not implemented", "", "0A000"),
    ("Permission", "", "42501"),
    ("IO", "", "58030"),
    ("HTTP", "", "58030"),
    ("Expression", "", "54001"),
)


def of_any(error: Exception, *, quiet: bool = False) -> PgError:
    """An error as the client is told of it. A bug is shown in the server's own log alone."""
    if isinstance(error, PgError):
        return error
    if isinstance(error, MereError):
        return of_mere(error)
    if isinstance(error, MemoryError):
        return PgError("53200", "out of memory")
    if not quiet:
        _LOG.error("a statement failed unexpectedly", exc_info=error)
    return PgError("XX000", "internal error; the server's log says more")


def of_mere(error: MereError) -> PgError:
    """One that says why a table cannot be read."""
    return PgError("58030", error.message, hint=error.remedy)


def of_duckdb(error: Exception, tree: exp.Expr, folders: Mapping[str, str], columns: Sequence[str]) -> PgError:
    """`tree`: what the client wrote, in which a name that was not found has its position. `folders`: of the tables that
    it names, `columns`: theirs."""
    found = duckdb_errors.details(error)
    if ours := _OURS.match(found.message):
        return PgError(ours[1], ours[2].rstrip("."))
    if (broken := duckdb_errors.of_file(found, folders)) is not None:
        return of_mere(broken)
    state = _state(found.kind or _kind(error), found.message)
    raw = _raw(error)
    if state == "42703" and (missing := _missing_column(raw, found.message)):
        return _no_column(missing, columns, tree)
    if state == "42883":
        return _no_function(found.message, raw, tree)
    message = _plain(found.message, state)
    name = raw.get("name") or _quoted(found.message)
    return PgError(state, message, position=_position(tree, name) if name else 0)


def _raw(error: Exception) -> Mapping[str, str]:
    text = str(error)
    try:
        found: Mapping[str, str] = json.loads(text[text.index("{") :])
    except ValueError:
        return {}
    return found


def _kind(error: Exception) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__.removesuffix("Exception").removesuffix("Error"))


def _state(kind: str, message: str) -> str:
    for known, words, state in _STATES:
        if kind.lower() == known.lower() and re.search(words, message):
            return state
    return "XX000"


def _plain(message: str, state: str) -> str:
    text = message.rstrip(".")
    if state == "53200":
        return "out of memory"
    if state == "53400":
        return "the statement needs more room on disk than it may take"
    if missing := re.search(r'Referenced table "(.*?)" not found', text):
        return f'missing FROM-clause entry for table "{missing[1]}"'
    if bad := re.search(r"[Cc]ould not convert string '(.*)' to (\w+)", text):
        return f'invalid input syntax for type {_TYPES.get(bad[2], bad[2].lower())}: "{bad[1]}"'
    return re.sub(r'"?memory"?\."?(?:lake|catalog)"?\.', "", text)


_TYPES = {
    "INT16": "smallint", "INT32": "integer", "INT64": "bigint", "INT128": "numeric", "DOUBLE": "double precision",
    "FLOAT": "real", "BOOL": "boolean", "UUID": "uuid",
}  # fmt: skip


def _missing_column(raw: Mapping[str, str], message: str) -> str | None:
    told = re.search(r'does not have a column named "(.*?)"|^Column "(.*?)" referenced that exists', message)
    return (told[1] or told[2]) if told else raw.get("name")


def _no_column(name: str, columns: Sequence[str], tree: exp.Expr) -> PgError:
    hint = near(name, columns).strip() or None
    return PgError("42703", f'column "{name}" does not exist', hint=hint, position=_position(tree, name))


def _no_function(message: str, raw: Mapping[str, str], tree: exp.Expr) -> PgError:
    called = re.search(r"No function matches the given name and argument types '([^']*)'", message)
    shown = called[1] if called else f"{raw.get('name', '')}"
    name = shown.split("(")[0]
    return PgError(
        "42883",
        f"function {shown.lower()} does not exist",
        hint="No function matches the given name and argument types. You might need to add explicit type casts.",
        position=_position(tree, name),
    )


def _quoted(message: str) -> str | None:
    found = re.search(r'"([^"]+)"', message)
    return found[1].rsplit(".", 1)[-1] if found else None


def _position(tree: exp.Expr, name: str) -> int:
    """Where the client wrote this name."""
    from sqlglot import exp

    for node in tree.find_all(exp.Identifier):
        if node.name.lower() == name.lower() and "start" in node.meta:
            return int(node.meta["start"]) + 1
    return 0

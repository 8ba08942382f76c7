"""The options of COPY … TO STDOUT: their values, and which fit together, in the order in which Postgres checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from mere.serve.protocol.port import PgError
from mere.serve.protocol.statement import CopyOptions

Value = str | list[str] | None  # as it was written; None: only the name was
EVERY = ["*"]

_FORMATS = ("text", "csv", "binary")
_NO_DELIMITERS = "\\.abcdefghijklmnopqrstuvwxyz0123456789"
_ONLY_FROM = "22023", "COPY {} cannot be used with COPY TO"
_VERBOSITIES = ("default", "verbose", "silent")


def read(written: Iterable[tuple[str, Value]]) -> CopyOptions:
    """PgError with Postgres's SQLSTATE where they are wrong or do not fit."""
    given: dict[str, Value] = {}
    for name, value in written:
        reader = _READERS.get(name)
        if reader is None:
            raise PgError("42601", f'option "{name}" not recognized')
        if name in given:
            raise PgError("42601", "conflicting or redundant options")
        given[name] = reader(name, value)
    csv = given.get("format") == "csv"
    delimiter = _text(given, "delimiter", "," if csv else "\t")
    quote = _text(given, "quote", '"')
    null = _text(given, "null", "" if csv else "\\N")
    escape = _text(given, "escape", quote)
    _check_binary(given)
    _check_delimiter(delimiter, null, csv)
    if given.get("format") == "binary" and given.get("header"):
        raise PgError("0A000", "cannot specify HEADER in BINARY mode")
    _check_csv(given, csv, {"quote": quote, "escape": escape}, delimiter)
    if delimiter in null:
        raise PgError("22023", "COPY delimiter character must not appear in the NULL specification")
    if csv and quote in null:
        raise PgError("22023", "CSV quote character must not appear in the NULL specification")
    _check_direction(given)
    forced = frozenset(given.get("force_quote") or ())
    return CopyOptions(
        _text(given, "format", "text"), delimiter, null, bool(given.get("header")), quote, escape, forced
    )


def _check_binary(given: dict[str, Value]) -> None:
    for name in ("delimiter", "null"):
        if given.get("format") == "binary" and name in given:
            raise PgError("42601", f"cannot specify {name.upper()} in BINARY mode")


def _check_delimiter(delimiter: str, null: str, csv: bool) -> None:
    if len(delimiter.encode()) != 1:
        raise PgError("0A000", "COPY delimiter must be a single one-byte character")
    if delimiter in "\r\n":
        raise PgError("22023", "COPY delimiter cannot be newline or carriage return")
    if "\r" in null or "\n" in null:
        raise PgError("22023", "COPY null representation cannot use newline or carriage return")
    if not csv and delimiter in _NO_DELIMITERS:
        raise PgError("22023", f'COPY delimiter cannot be "{delimiter}"')


def _check_csv(given: dict[str, Value], csv: bool, characters: dict[str, str], delimiter: str) -> None:
    for name in ("quote", "escape", "force_quote", "force_not_null", "force_null"):
        if name in given and not csv:
            raise PgError("0A000", f"COPY {name.upper()} requires CSV mode")
        if csv and name in characters and len(characters[name].encode()) != 1:
            raise PgError("0A000", f"COPY {name} must be a single one-byte character")
        if csv and name == "quote" and characters[name] == delimiter:
            raise PgError("22023", "COPY delimiter and quote must be different")
        if name in given and name in ("force_not_null", "force_null"):
            raise _only_from(name)


def _check_direction(given: dict[str, Value]) -> None:
    if given.get("freeze"):
        raise _only_from("freeze")
    if "default" in given:
        raise PgError("0A000", "COPY DEFAULT cannot be used with COPY TO")
    if "reject_limit" in given:
        raise PgError("22023", "COPY REJECT_LIMIT requires ON_ERROR to be set to IGNORE")


def _only_from(name: str) -> PgError:
    state, message = _ONLY_FROM
    return PgError(state, message.format(name.upper()))


def _text(given: dict[str, Value], name: str, otherwise: str) -> str:
    return str(given[name]) if name in given else otherwise


# One option each


def _a_text(name: str, value: Value) -> str:
    if not isinstance(value, str):
        raise PgError("42601", f"{name} requires a parameter")
    return value


def _a_format(name: str, value: Value) -> str:
    found = _a_text(name, value)
    if found not in _FORMATS:
        raise PgError("22023", f'COPY format "{found}" not recognized')
    return found


def _a_switch(name: str, value: Value, more: str = "") -> Literal["yes"] | None:
    """A text, or None, so that it is as true as it is meant."""
    if value is None or str(value).lower() in ("true", "on", "1"):
        return "yes"
    if str(value).lower() in ("false", "off", "0"):
        return None
    raise PgError("42601", f"{name} requires a Boolean value{more}")


def _a_header(name: str, value: Value) -> Literal["yes"] | None:
    if str(value).lower() == "match":
        raise PgError("0A000", 'cannot use "match" with HEADER in COPY TO')
    return _a_switch(name, value, ' or "match"')


def _some_columns(name: str, value: Value) -> list[str]:
    if not isinstance(value, list):
        raise PgError("22023", f'argument to option "{name}" must be a list of column names')
    return value


def _an_encoding(name: str, value: Value) -> str:
    found = _a_text(name, value)
    if found.lower().replace("-", "").replace("_", "") not in ("utf8", "unicode"):
        raise PgError("0A000", f"the encoding {found} is not supported: all texts are UTF-8")
    return found


def _a_verbosity(name: str, value: Value) -> str:
    found = _a_text(name, value)
    if found.lower() not in _VERBOSITIES:
        raise PgError("22023", f'COPY {name.upper()} "{found}" not recognized')
    return found


def _never(name: str, _: Value) -> Value:
    raise _only_from(name)


_READERS: dict[str, Callable[[str, Value], Value]] = {
    "format": _a_format,
    **dict.fromkeys(("delimiter", "null", "quote", "escape", "default", "reject_limit"), _a_text),
    "header": _a_header,
    "freeze": _a_switch,
    **dict.fromkeys(("force_quote", "force_not_null", "force_null"), _some_columns),
    "encoding": _an_encoding,
    "log_verbosity": _a_verbosity,
    "on_error": _never,
}

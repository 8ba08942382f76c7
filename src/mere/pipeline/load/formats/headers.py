"""What a text file says about itself before its rows are read: its real format, and its header."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, cast

from mere.errors import RunFailed
from mere.sources.source import Format, Text

_MOST = 16 << 20  # bytes of a header
_DELIMITERS = (",", ";", "\t", "|")
_WORDS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
_GZIP = b"\x1f\x8b"
_NOT_TEXT = {
    b"PAR1": ("Parquet", "format: parquet"),
    _GZIP: ("gzip", "Give it a name that ends in .gz."),
    b"\x28\xb5\x2f\xfd": ("zstd", "Give it a name that ends in .zst."),
    b"PK\x03\x04": ("a zip archive", "Unpack it first."),
    b"\xff\xfe": ("UTF-16 text", "Make it UTF-8 first: iconv -f utf-16 -t utf-8"),
    b"\xfe\xff": ("UTF-16 text", "Make it UTF-8 first: iconv -f utf-16 -t utf-8"),
}


@dataclass(frozen=True)
class Header:
    """The first line of a file that is not blank, and the values in it."""

    line: str
    values: tuple[str, ...]


def opened(path: Path) -> BinaryIO:
    """The bytes of a file, unpacked if its name ends in .gz, as Spark does it."""
    return cast(BinaryIO, gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb"))


def first_line(path: Path, place: str, text: Text) -> str | None:
    """Of a text file, without a mark at its start; None: it has nothing but blank lines. `place`: for messages."""
    try:
        with opened(path) as file:
            while raw := file.readline(_MOST):
                for line in raw.splitlines():
                    if (decoded := _decoded(line, place, text)).strip():
                        return decoded
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise RunFailed(f"{place} cannot be unpacked: {error}. Nothing was loaded.", remedy=_AGAIN) from error
    return None


_AGAIN = "It is damaged or incomplete: get it again."


def check_format(path: Path, place: str, kind: Format) -> None:
    """Before Spark reads it: what it does with files that are something else is rarely a clear error."""
    with path.open("rb") as file:
        start = file.read(4)
    if path.suffix == ".gz":
        if not start.startswith(_GZIP):
            raise RunFailed(f"{place} is not gzip, although its name says so. Nothing was loaded.", remedy="Rename it.")
        return
    for magic, (what, remedy) in _NOT_TEXT.items():
        if start.startswith(magic):
            raise RunFailed(f"{place} is {what}, not {kind}. Nothing was loaded.", remedy=remedy)


def header_of(line: str, text: Text) -> Header:
    return Header(line, tuple(values_of(line, text)))


def values_of(line: str, text: Text) -> list[str]:
    """Of one line, as Spark cuts it."""
    values, rest = [], line
    pattern = _value_pattern(text)
    while True:
        found = pattern.match(rest)
        value = found[0] if found else rest
        end = len(value)
        if text.quote and value.startswith(text.quote) and found and found["quoted"] is not None:
            value = found["quoted"].replace(text.escape + text.quote, text.quote)
        values.append(value)
        if not rest.startswith(text.delimiter, end):
            return values
        rest = rest[end + len(text.delimiter) :]


@lru_cache
def _value_pattern(text: Text) -> re.Pattern[str]:
    inside, delimiter = _inside_quotes(text), re.escape(text.delimiter)
    quoted = (
        f"{re.escape(text.quote)}(?P<quoted>{inside}){re.escape(text.quote)}(?={delimiter}|$)|" if text.quote else ""
    )
    return re.compile(f"{quoted}(?:(?!{delimiter}).)*", re.DOTALL)


def _inside_quotes(text: Text) -> str:
    quote, escape = re.escape(text.quote), re.escape(text.escape)
    if text.escape in ("", text.quote):
        return f"[^{quote}]*+(?:{quote}{quote}[^{quote}]*+)*+"
    return f"[^{quote}{escape}]*+(?:{escape}.[^{quote}{escape}]*+)*+"


def well_formed(text: Text) -> str:
    """A line in which every quote that is opened is closed again, as an expression that both Java and Python read."""
    quote, delimiter = re.escape(text.quote), re.escape(text.delimiter)
    plain = f"[^{delimiter}]*+" if len(text.delimiter) == 1 else f"(?:(?!{delimiter}).)*+"
    value = f"(?:{quote}{_inside_quotes(text)}{quote}|(?!{quote}){plain})"
    return f"(?s)^{value}(?:{delimiter}{value})*+(?!.)"


def quoted_value(text: Text) -> str:
    return f"(?s){re.escape(text.quote)}{_inside_quotes(text)}{re.escape(text.quote)}"


def check_quotes(path: Path, place: str, text: Text) -> None:
    """Where values may go over lines, one quote that is not closed takes all that follows into its value, and nobody
    would see it: so the file is gone through before. The encodings that can be read have ASCII in them."""
    if not text.quote:
        return
    quote, delimiter = re.escape(text.quote), re.escape(text.delimiter)
    # Not possessive as for Java: Python gets that wrong for groups before 3.11.5.
    inside = _inside_quotes(text).replace("*+", "*")
    value = f"{quote}{inside}{quote}|(?!{quote})(?:(?!{delimiter})[^\r\n])*"
    piece = re.compile(f"(?s)(?:{value})(?:{delimiter}|\r\n?|\n|\\Z)".encode())
    with opened(path) as file:
        content = file.read().removeprefix(codecs.BOM_UTF8)
    end = 0
    for found in piece.finditer(content):
        if found.start() != end:
            break
        end = found.end()
    if end < len(content):
        line = content.count(b"\n", 0, end) + 1
        raise RunFailed(
            f"{place}:{line}: a quote is not closed where the value ends. Nothing was loaded.",
            remedy="Fix the line, or say how quotes are escaped in values: `csv: {escape: '\\\\'}`.",
        )


def check_delimiter(header: Header, place: str, text: Text, expected: Collection[str]) -> None:
    """`expected`: names of which some should be there. A header that is not cut, or cut at something else, has none."""
    names = {name.casefold() for name in expected}

    def known(values: Collection[str]) -> int:
        return len(names & {value.strip().casefold() for value in values}) if names else len(values)

    if known(header.values) > (0 if names else 1):
        return
    others = {each: values_of(header.line, _with_delimiter(text, each)) for each in _DELIMITERS}
    best = max(others, key=lambda each: known(others[each]))
    if known(others[best]) > known(header.values):
        raise RunFailed(
            f"{place} is not delimited by {text.delimiter!r}: its header would be {header.line[:80]!r}."
            " Nothing was loaded.",
            remedy=f"With {_WORDS[best]} it would have {len(others[best])} columns: `csv: {{delimiter: {best!r}}}`.",
        )


def _with_delimiter(text: Text, delimiter: str) -> Text:
    return Text(delimiter, text.quote, text.escape)


def _decoded(raw: bytes, place: str, text: Text) -> str:
    try:
        return raw.decode(text.encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        shown = raw[max(0, error.start - 20) : error.end + 20].decode(text.encoding, errors="replace")
        raise RunFailed(
            f"{place} is not {text.encoding}: {shown!r}. Nothing was loaded.",
            remedy="Set its encoding: `csv: {encoding: windows-1252}`, for instance.",
        ) from error


@dataclass(frozen=True)
class Charset:
    """An encoding of one byte a character: what its bytes from 128 on stand for; U+FFFD: for nothing."""

    upper: str


LATIN_1 = bytes(range(128, 256)).decode("latin-1")


def charset_of(encoding: str, place: str) -> Charset | None:
    """None: UTF-8. Spark itself knows only a handful of others."""
    try:
        name = codecs.lookup(encoding).name
        if name in ("utf-8", "utf-8-sig", "ascii"):
            return None
        lower = bytes(range(128))
        if lower.decode(encoding) != lower.decode("ascii"):
            raise LookupError
        upper = "".join(bytes([byte]).decode(encoding, errors="replace") for byte in range(128, 256))
        whole = bytes(range(160, 256)).decode(encoding, errors="replace")
        if len(upper) != 128 or whole != upper[32:]:
            raise LookupError
    except (LookupError, UnicodeError) as error:
        raise RunFailed(
            f"{place}: text in {encoding} cannot be read.",
            remedy="utf-8 and every encoding with one byte a character can: latin-1, windows-1252, cp850, koi8-r …",
        ) from error
    return Charset(upper)

"""Where the files of a source are, as a pattern over their names: `data/trips_{year}-{month}.parquet`.

The folders before the first field or wildcard are the base. What matches is the name below it, so that a file keeps
its name when the whole folder moves.

| in a pattern | stands for |
|---|---|
| `{year} {month} {day} {hour} {date}` | the window of the file. Two digits, or one where no other digit touches it |
| `{name}` | any text within a part of the path: the shortest, from the left |
| `*` and `?` | any text and any character within a part |
| `**` as a whole part | any folders, or none |

A field that stands twice has the same text both times. As in Spark, no field or wildcard stands for a hidden name, one
that begins with `.` or `_`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Self
from urllib.parse import urlsplit

from mere.lake.storage.port import canonical
from mere.windows import LAST, Grain, Span

TIME_FIELDS = ("year", "month", "day", "hour", "date")
_TWO_DIGITS = "(?:[0-9]{2}|(?<![0-9])[0-9](?![0-9]))"
_TIMES = {
    "year": "[0-9]{4}",
    "month": _TWO_DIGITS,
    "day": _TWO_DIGITS,
    "hour": _TWO_DIGITS,
    "date": "[0-9]{4}-[0-9]{2}-[0-9]{2}",
}
# Where each stands in a time as ISO 8601 writes it.
_WRITTEN = {"year": slice(4), "month": slice(5, 7), "day": slice(8, 10), "hour": slice(11, 13), "date": slice(10)}
_NEEDED = {"month": ("year",), "day": ("month",), "hour": ("day", "date")}
_SHOWN = "(?![._])"
# A variable of the environment is text: a pattern is also read where its value is not known.
_TOKEN = re.compile(r"(?P<text>\$\{[^}]*\}|[^*?{}$]+|\$)|\{(?P<field>[^{}]*)\}|(?P<wild>\*+|\?)|(?P<stray>[{}])")
_SLASH = re.compile(r"/(?![^{}]*\})")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_AT_THE_END = re.compile(r"[?#].*", re.DOTALL)
_QUERY = re.compile(r"\?[^/?]*=.*", re.DOTALL)
_USER = re.compile(r"(?<=://)[^/?#]*@")
_HOST = re.compile(r"(?:\[[^]]*\]|[^:@]+)(?::[0-9]+)?")


@dataclass(frozen=True)
class Match:
    values: Mapping[str, str]  # of the fields, as they stand in the name
    span: Span | None


@dataclass(frozen=True)
class Pattern:
    """`base` ends without a slash and holds no secret: user, password and query of a web address are cut off."""

    base: str
    parts: tuple[str, ...]  # of the names below the base
    fields: tuple[str, ...]
    grain: Grain | None  # of the windows that the time fields give; None: there are none
    _whole: re.Pattern[str]
    _steps: tuple[re.Pattern[str] | None, ...]  # a part each; None: `**`

    @classmethod
    def parse(cls, location: str) -> Self:
        """ValueError says in words what is wrong."""
        head, path = _split(location)
        pieces = _SLASH.split(path)
        first = next((at for at, part in enumerate(pieces) if not _is_fixed(part)), len(pieces))
        first = min(first, len(pieces) - 1)
        parts = tuple(pieces[first:])
        _check(parts, folders=pieces[:-1], head=head)
        fields = tuple(dict.fromkeys(field for part in parts for field in _fields(part)))
        base = "/".join((head, *pieces[:first]) if head else pieces[:first]) or ("/" if first else "")
        steps = tuple(None if part == "**" else re.compile(_expression(part, set())) for part in parts)
        return cls(base, parts, fields, _grain(fields), re.compile(_joined(parts)), steps)

    @property
    def is_fixed(self) -> bool:
        """Whether it is the name of one file."""
        return all(map(_is_fixed, self.parts))

    def match(self, name: str) -> Match | None:
        """`name` is relative to the base. One whose time is in no calendar does not match."""
        found = self._whole.fullmatch(name)
        if found is None:
            return None
        values = found.groupdict()
        if self.grain is None:
            return Match(values, None)
        try:
            return Match(values, _span(values, self.grain))
        except ValueError:
            return None

    def at(self, start: datetime) -> str:
        """The name of the file of a window."""
        if self.grain is None or not all(map(_is_time, self.parts)):
            raise ValueError("only a pattern of time fields says what the file of a window is called")
        return "/".join(_written(part, start) for part in self.parts)

    def location(self, name: str) -> str:
        return f"{self.base.removesuffix('/')}/{name}" if self.base else name

    def enters(self, depth: int, folder: str) -> bool:
        """Whether a folder of this name, so many folders below the base, can hold a file that matches."""
        if None in self._steps[: depth + 1]:
            named = any(step is not None and step.fullmatch(folder) for step in self._steps)
            return named or not folder.startswith((".", "_"))
        step = self._steps[depth] if depth < len(self._steps) - 1 else None
        return step is not None and step.fullmatch(folder) is not None


def _split(location: str) -> tuple[str, str]:
    """The host or bucket, empty for a path of this machine, and what comes after its slash."""
    place = canonical(location)
    scheme = _SCHEME.match(place)
    if scheme is None:
        if not place:
            raise ValueError("the location of the files is empty")
        return "", _tidy(place)
    if scheme[1] not in ("s3", "http", "https"):
        raise ValueError(f"files are read from this machine, s3://, http:// and https://, not from {scheme[1]}:")
    on_web = scheme[1] != "s3"
    if on_web:
        if any(f"{{{field}}}" in urlsplit(place).query for field in TIME_FIELDS):
            raise ValueError("a field cannot come after the ? of a web address: that part names no file")
        place = without_query(place)
    head, slash, path = place.partition("://")[2].partition("/")
    if not head or not slash or not _is_fixed(head):
        raise ValueError(f"the {'host' if on_web else 'bucket'} has to be named, with the files after it")
    if on_web and not _HOST.fullmatch(head):
        raise ValueError("the web address has no host and port (a / in a password is written %2F)")
    return f"{scheme[1]}://{head}", path


def _tidy(path: str) -> str:
    first, *others = _SLASH.split(path)
    kept = [part for part in others[:-1] if part not in ("", ".")] + others[-1:]
    return "/".join(kept if first == "." and kept else [first, *kept])


def _check(parts: tuple[str, ...], *, folders: list[str], head: str) -> None:
    if not parts[-1] or parts[-1] in (".", ".."):
        raise ValueError("it names a folder: write folder/* for the files in it, or folder/** for all below it")
    if head.startswith("s3://") and any(part in ("", ".", "..") for part in folders):
        raise ValueError("a part of the path is empty, . or ..")
    for part in parts:
        if part == ".." and len(parts) > 1:
            raise ValueError(".. cannot come after a field or wildcard")
        for token in _tokens(part):
            if token["stray"]:
                raise ValueError(f"a {token['stray']} in {part} has no counterpart")
            if token["field"] is not None and not _FIELD.fullmatch(token["field"]):
                raise ValueError(f"{token[0]} is not a field: its name is of letters, digits and _")
            if token["wild"] and token["wild"].startswith("**") and part != "**":
                raise ValueError(f"** has to be a whole part of the path, not a piece of one as in {part}")
        if head.startswith("http") and not _is_time(part):
            known = " ".join(f"{{{field}}}" for field in TIME_FIELDS)
            raise ValueError(f"a web server lists no files: only {known} may appear in its addresses, not {part}")


def _grain(fields: Iterable[str]) -> Grain | None:
    given = [field for field in TIME_FIELDS if field in fields]
    for field in given:
        needed = _NEEDED.get(field, ())
        if needed and not set(needed) & set(given):
            raise ValueError(f"{{{field}}} needs {' or '.join(f'{{{each}}}' for each in needed)} beside it")
    if "hour" in given:
        return Grain.HOUR
    if "day" in given or "date" in given:
        return Grain.DAY
    return Grain(given[-1]) if given else None


def _span(values: Mapping[str, str], grain: Grain) -> Span:
    """ValueError: there is no such time, or the fields contradict each other."""
    day = date.fromisoformat(values["date"]) if "date" in values else None
    year, month, number = (
        int(values[field]) if field in values else default
        for field, default in (
            ("year", day.year if day else 1),
            ("month", day.month if day else 1),
            ("day", day.day if day else 1),
        )
    )
    start = datetime(year, month, number, int(values.get("hour", 0)), tzinfo=UTC)
    if day and start.date() != day:
        raise ValueError
    try:
        return Span(start, grain.next(start))
    except (ValueError, OverflowError):  # the last window of all
        return Span(start, LAST)


def _joined(parts: tuple[str, ...]) -> str:
    seen: set[str] = set()
    *folders, last = (f"(?:{_SHOWN}[^/]+/)*" if part == "**" else _expression(part, seen) for part in parts)
    text = "".join(each if part == "**" else f"{each}/" for each, part in zip(folders, parts, strict=False))
    return f"{text}{last}{_SHOWN}[^/]+" if parts[-1] == "**" else f"{text}{last}"


def _expression(part: str, seen: set[str]) -> str:
    """`seen`: the fields that the expression before it has."""
    text = "" if _is_fixed(part[:1]) else _SHOWN
    for token in _tokens(part):
        if (field := token["field"]) is not None:
            text += f"(?P={field})" if field in seen else f"(?P<{field}>{_TIMES.get(field, '[^/]+?')})"
            seen.add(field)
        elif token["wild"]:
            text += "[^/]" if token["wild"] == "?" else "[^/]*"
        else:
            text += re.escape(token[0])
    return text


def _written(part: str, start: datetime) -> str:
    written = start.isoformat()
    return "".join(written[_WRITTEN[token["field"]]] if token["field"] else token[0] for token in _tokens(part))


def is_on_web(location: str) -> bool:
    return location.startswith(("http://", "https://"))


def without_query(location: str) -> str:
    """`?` is a wildcard, but in a web address, which a variable at the start may be, it begins a query."""
    if is_on_web(location):
        return _AT_THE_END.sub("", _USER.sub("", location))
    return _QUERY.sub("", location) if location.startswith("$") else location


def below_base(location: str) -> str:
    """Of a pattern, what decides how files are called. One that is yet to be completed by variables is all of it, where
    it cannot be read."""
    try:
        return "/".join(Pattern.parse(location).parts)
    except ValueError:
        return location


def _tokens(part: str) -> Iterator[re.Match[str]]:
    return _TOKEN.finditer(part)


def _fields(part: str) -> list[str]:
    return [token["field"] for token in _tokens(part) if token["field"] is not None]


def _is_fixed(part: str) -> bool:
    return all(token["text"] for token in _tokens(part))


def _is_time(part: str) -> bool:
    """Whether nothing stands in it but text and time fields."""
    return all(token["text"] or token["field"] in TIME_FIELDS for token in _tokens(part))

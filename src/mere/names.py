"""Names of tables and of refs, and the expressions that point into a ref's history."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from mere.errors import InvalidName

MAIN = "main"
RUN_PREFIX = "run_"
ALIAS_PREFIX = "at_"
QUARANTINE = "__quarantine"
LOADS = "__loads"
RULES, RUN, AT = (
    "_rules",
    "_run",
    "_at",
)  # columns of a quarantine: the rules that a row breaks, and who set it aside when

_REF_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_HEX = re.compile(r"[0-9a-f]+")
_COMMIT_PREFIX = re.compile(r"[0-9a-f]{4,16}")
_RESERVED = frozenset({"system", "spark_catalog"})
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_QUOTED_NAME = re.compile(rf"({_QUOTED}|[^\"].*?)\.({_QUOTED})")
_QUOTED_NAMESPACE = re.compile(rf"({_QUOTED})\.")
_FAR = 18  # digits: no history has as many commits
_LONGEST = 200  # bytes of a name: a folder and the names of companions are made of it
_WHEN = re.compile(r"[0-9A-Za-z:., +-]+")
_NEAR = re.compile(r" Did you mean [^?]*\?")
_AGE = re.compile(r"(\d+)\s*([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

REF_RULE = (
    "A branch or tag name starts with a letter and has only a-z, 0-9, _ and -; it is not made of hex digits "
    "alone (that would look like a commit id), not system or spark_catalog, and does not start with "
    f"{RUN_PREFIX} or {ALIAS_PREFIX}."
)
EXPRESSION_RULE = (
    "A ref is a branch, a tag or a commit id (4 or more digits of it), optionally followed by ~N (N commits back) or "
    "@WHEN (a time in UTC such as 2026-11-15T09:00, or an age such as 2h, 3d)."
)


@dataclass(frozen=True, order=True)
class TableName:
    """`schema.table`: a ref is never part of it.

    What an engine has put into the catalog may have no namespace, a dot in its name or worse. Such a part is spelled as
    a JSON string, `"".orders` or `gold."a.b"`, so that whatever is printed can be typed.
    """

    namespace: str
    name: str

    @classmethod
    def of(cls, parts: Sequence[str]) -> TableName:
        """By the parts of a dotted name; where there is but one, the namespace is empty."""
        return cls(".".join(parts[:-1]), parts[-1])

    @classmethod
    def parse(cls, text: str) -> TableName:
        text = text.strip()
        try:
            quoted = _QUOTED_NAME.fullmatch(text)
            namespace, name = (quoted[1], quoted[2]) if quoted else _bare(text)
            return cls(_unquoted(namespace), _unquoted(name))
        except ValueError as error:
            raise InvalidName(
                f"{text!r} is not a table name.", remedy="Write schema.table, such as gold.daily_revenue."
            ) from error

    @property
    def is_plain(self) -> bool:
        """Whether models, queries and engines can name it."""
        return all(map(_is_plain, self.namespace.split("."))) and _is_plain(self.name) and "." not in self.name

    @property
    def quarantine(self) -> TableName:
        """Where the bad rows of this table go."""
        return TableName(self.namespace, self.name + QUARANTINE)

    @property
    def quarantined(self) -> TableName | None:
        """Of a quarantine: the table whose bad rows it keeps."""
        return self._without(QUARANTINE)

    @property
    def loads(self) -> TableName:
        """Where it is written what was loaded into this table from outside."""
        return TableName(self.namespace, self.name + LOADS)

    @property
    def companions(self) -> tuple[TableName, ...]:
        """The tables that belong to this one, if they are there: one without the other would lose or double rows."""
        return self.quarantine, self.loads

    @property
    def owner(self) -> TableName | None:
        """Of a companion: the table to which it belongs."""
        return self.quarantined or self._without(LOADS)

    def _without(self, ending: str) -> TableName | None:
        base = self.name.removesuffix(ending)
        return TableName(self.namespace, base) if base and base != self.name else None

    def __str__(self) -> str:
        return f"{spelled_namespace(self.namespace)}.{_spelled(self.name, [self.name])}"


def spelled_namespace(namespace: str) -> str:
    return _spelled(namespace, namespace.split("."))


def _spelled(text: str, parts: list[str]) -> str:
    if all(_is_plain(part) and "." not in part and not part.startswith('"') for part in parts):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _is_plain(part: str) -> bool:
    return bool(part) and part == part.strip() and part.isprintable()


def _bare(text: str) -> tuple[str, str]:
    """The parts of a table's name of which the second is not quoted."""
    if first := _QUOTED_NAMESPACE.match(text):
        namespace, name = first[1], text[first.end() :]
    else:
        namespace, _, name = text.rpartition(".")
    if "." in name:
        raise ValueError(f"{name!r} has to be quoted")
    return namespace, name


def _unquoted(part: str) -> str:
    if part.startswith('"'):
        text = str(json.loads(part))
        text.encode()  # half of a surrogate pair is no text
        return text
    if not all(part.split(".")):
        raise ValueError(f"{part!r} lacks a part")
    return part


def check_new_table(table: TableName) -> None:
    """InvalidName, if a new table or view, or one that is renamed, cannot have this name."""
    if not table.is_plain:
        raise InvalidName(f"No query could spell {table}.", remedy="Choose a plain SCHEMA.TABLE.")
    if longest := max((part for part in (table.namespace, table.name) if len(part.encode()) > _LONGEST), default=""):
        raise InvalidName(f"{longest[:50]}… is too long for a name.", remedy=f"Choose one of at most {_LONGEST} bytes.")


def run_of(branch: str) -> str:
    """The id of the run that a branch belongs to."""
    return branch.removeprefix(RUN_PREFIX).partition("_")[0]


def next_attempt(branch: str) -> str:
    """The branch of a run after this one: `run_3fa9c1d2b4e5`, `run_3fa9c1d2b4e5_2`, and so on."""
    id_, _, number = branch.removeprefix(RUN_PREFIX).partition("_")
    return f"{RUN_PREFIX}{id_}_{int(number or 1) + 1}"


def check_new_ref(name: str) -> str:
    """The name, if a user may give it to a new branch or tag."""
    fits = _REF_NAME.fullmatch(name) and not _HEX.fullmatch(name) and name not in _RESERVED
    if not fits or name.startswith((RUN_PREFIX, ALIAS_PREFIX)) or len(name) > 200:
        raise InvalidName(f"{name!r} cannot be the name of a branch or tag.", remedy=REF_RULE)
    return name


@dataclass(frozen=True)
class Back:
    """`~N`: so many commits before."""

    commits: int


@dataclass(frozen=True)
class AsOf:
    """`@2026-11-15T09:00`: the last commit at or before an instant."""

    instant: datetime


@dataclass(frozen=True)
class Ago:
    """`@2h`: the last commit at or before so long ago."""

    age: timedelta


Step = Back | AsOf | Ago


@dataclass(frozen=True)
class RefExpression:
    """A ref as people write it: `main`, `v1`, `3fa9c1`, `main~3`, `main@2h`, `dev@2026-11-15T09:00~1`."""

    text: str
    base: str
    steps: tuple[Step, ...] = ()

    @property
    def may_be_commit(self) -> bool:
        return _COMMIT_PREFIX.fullmatch(self.base) is not None

    @classmethod
    def parse(cls, text: str) -> RefExpression:
        parts = re.split(r"(?=[~@])", text.strip())
        base = parts[0]
        if not (_REF_NAME.fullmatch(base) or _COMMIT_PREFIX.fullmatch(base)):
            raise InvalidName(f"{text!r} is not a ref.", remedy=EXPRESSION_RULE)
        return cls(text, base, tuple(_step(text, part) for part in parts[1:]))


def _step(text: str, part: str) -> Step:
    mark, rest = part[0], part[1:].strip()
    if mark == "~":
        if rest.isascii() and (rest.isdigit() or not rest):
            return Back(int(rest[:_FAR] or 1))
        raise InvalidName(f"{text!r} is not a ref: {part!r} should be ~ and a number.", remedy=EXPRESSION_RULE)
    try:
        if (age := parse_age(rest)) is not None:
            return Ago(age)
        if not _WHEN.fullmatch(rest):
            raise ValueError(rest)
        instant = datetime.fromisoformat(rest)
        return AsOf((instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC))
    except (ValueError, OverflowError) as error:
        raise InvalidName(f"{text!r} is not a ref: {rest!r} is not a time.", remedy=EXPRESSION_RULE) from error


def parse_age(text: str) -> timedelta | None:
    """`90s`, `2h`, `7d` as a duration; None if it is not written like one."""
    found = _AGE.fullmatch(text)
    try:
        return timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None
    except OverflowError:
        return None


def closest(word: str, known: Iterable[object], by: Callable[[Any], str] = str) -> list[str]:
    """At most three known names that look like a word, nearest first. Case does not count; `by` is what is compared."""
    folded: dict[str, list[str]] = {}
    for each in dict.fromkeys(known):
        folded.setdefault(by(each).lower(), []).append(str(each))
    matches = difflib.get_close_matches(word.lower(), folded, n=3)
    return [name for match in matches for name in dict.fromkeys(folded[match]) if name != word][:3]


def near(word: str, known: Iterable[object], by: Callable[[Any], str] = str) -> str:
    """A sentence with the names from `closest`, or nothing."""
    matches = closest(word, known, by)
    return f" Did you mean {' or '.join(matches)}?" if matches else ""


def without_near(text: str) -> str:
    """A message without that sentence: the names in it may be ones that its reader must not know."""
    return _NEAR.sub("", text)

"""A history as it is defined, in plain Python: what the fold on Spark must give. Times are whatever can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

Key = Any
Values = tuple[Any, ...]


class Version(NamedTuple):
    key: Key
    values: Values
    valid_from: Any
    valid_to: Any  # None: it still holds

    @property
    def is_current(self) -> bool:
        return self.valid_to is None


History = list[Version]


def compared(history: History, at: Any, here: Mapping[Key, Values], columns: slice = slice(None)) -> History:
    """One observation later, where a version ends when the values of some columns change, or the key goes."""
    open_ = {each.key: each for each in history if each.is_current}
    kept = {key: each for key, each in open_.items() if key in here and here[key][columns] == each.values[columns]}
    ended = [each._replace(valid_to=at) if each.is_current and each.key not in kept else each for each in history]
    begun = [Version(key, values, at, None) for key, values in here.items() if key not in kept]
    return ordered([*ended, *begun])


def ordered(history: Iterable[Version]) -> History:
    return sorted(history, key=lambda each: (repr(each.key), each.valid_from))


def tick(at: Any) -> Any:
    """The least that is later."""
    return at + timedelta(microseconds=1) if isinstance(at, datetime) else at + 1


@dataclass
class Timed:
    """All that was ever observed of one key whose versions say themselves from when they hold.

    At each time the newest version that began before it holds, while the key is there. It is not there from the
    observation that misses it (but the last version begins before that) to the one that finds it again, or to a version
    that begins in between.
    """

    versions: dict[Any, Values] = field(default_factory=dict)
    absences: list[tuple[Any, Any]] = field(default_factory=list)  # from, and to; None: until now

    def observe(self, at: Any, rows: Mapping[Any, Values]) -> None:
        away = bool(self.absences) and self.absences[-1][1] is None
        if rows and away:
            since, _ = self.absences.pop()
            self.absences += [(since, at)] if at > since else []
        if not rows and not away and self.versions:
            self.absences.append((max(at, tick(max(self.versions))), None))
        self.versions |= rows

    def history(self, key: Key) -> History:
        gaps = [(since, self._back(since, to)) for since, to in self.absences]
        bounds = sorted({*self.versions, *(at for gap in gaps for at in gap if at is not None)})
        found: History = []
        for at, end in zip(bounds, [*bounds[1:], None], strict=False):
            if any(since <= at and (to is None or at < to) for since, to in gaps):
                continue
            values = self.versions[max(begun for begun in self.versions if begun <= at)]
            if found and found[-1].valid_to == at and at not in self.versions:
                found[-1] = found[-1]._replace(valid_to=end)
            else:
                found.append(Version(key, values, at, end))
        return found

    def _back(self, since: Any, to: Any) -> Any:
        return min([*(begun for begun in self.versions if begun >= since), *([] if to is None else [to])], default=None)


Rows = Sequence[tuple[Key, Any, Values]]  # key, from when they hold, values


def timed(observations: Iterable[tuple[Any, Rows]]) -> History:
    """The history of every key after all of these observations."""
    found: dict[Key, Timed] = {}
    for at, rows in observations:
        for key in {*found, *(key for key, _, _ in rows)}:
            mine = {begun: values for each, begun, values in rows if each == key}
            found.setdefault(key, Timed()).observe(at, mine)
    return ordered(version for key, each in found.items() for version in each.history(key))


def dumped(looks: Iterable[Rows], columns: slice = slice(None)) -> History:
    """The history of full dumps: each is what its rows were when they were last seen, whenever that was."""
    dumps: dict[Any, dict[Key, Values]] = {}
    for rows in looks:
        for at in {at for _, at, _ in rows}:
            dumps[at] = {key: values for key, each, values in rows if each == at}
    history: History = []
    for at in sorted(dumps):
        history = compared(history, at, dumps[at], columns)
    return ordered(history)

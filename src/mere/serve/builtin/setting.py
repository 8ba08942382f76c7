"""One Postgres setting: its type, how its value is read, and how it is shown."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from mere.serve.protocol.port import PgError

_NUMBER = re.compile(r"\s*([-+]?(?:0x[0-9a-f]+|(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?))\s*([a-z]*)\s*", re.IGNORECASE)
_YES = ("on", "true", "yes", "1")
_NO = ("off", "false", "no", "0")
# In the smallest unit of each kind, largest first.
_MEMORY = {"TB": 1 << 40, "GB": 1 << 30, "MB": 1 << 20, "kB": 1 << 10, "B": 1}
_TIME = {"d": 86_400_000_000, "h": 3_600_000_000, "min": 60_000_000, "s": 1_000_000, "ms": 1000, "us": 1}


@dataclass(frozen=True)
class Setting:
    """`value` is the default, in the setting's `unit`, such as `8kB`."""

    name: str
    value: str
    unit: str
    category: str
    description: str
    more: str
    context: str  # who may set it, and when
    type: str  # bool, integer, real, enum, string
    lowest: str
    highest: str
    choices: tuple[str, ...]

    @classmethod
    def of(cls, row: Sequence[str]) -> Setting:
        """From a line of the facts about Postgres."""
        name, value, unit, category, description, more, context, type_, lowest, highest, choices = row
        found = tuple(filter(None, choices.split(",")))
        return cls(name, value, unit, category, description, more, context, type_, lowest, highest, found)

    def read(self, text: str) -> str:
        """A value that a client gives, as it is shown; PgError if it cannot be one."""
        if self.type == "bool":
            return self._switch(text)
        if self.type == "enum":
            return self.chosen(text, self.choices)
        return self.shown(_plain(self.number(text))) if self.type in ("integer", "real") else text

    def chosen(self, text: str, choices: Sequence[str]) -> str:
        found = next((each for each in choices if each.lower() == text.strip().lower()), None)
        if found is None:
            raise self._invalid(text)
        return found

    def _switch(self, text: str) -> str:
        given = text.strip().lower()
        for words, meant in ((_YES, "on"), (_NO, "off")):
            if given and given != "o" and any(word.startswith(given) for word in words):
                return meant
        raise PgError("22023", f'parameter "{self.name}" requires a Boolean value')

    def number(self, text: str) -> float:
        """In the setting's own unit, within its bounds."""
        found = _NUMBER.fullmatch(text)
        if found is None:
            raise self._invalid(text)
        plain, unit = found.groups()
        value = float(int(plain, 16)) if "x" in plain.lower() else float(plain)
        if not math.isfinite(value):
            raise self._invalid(text)
        if unit:
            value = value * self._size(unit, text) / self._base
        if self.type == "integer":
            value = float(round(value))
        if not float(self.lowest) <= value <= float(self.highest):
            bounds = f"({self.lowest} .. {self.highest})"
            raise PgError("22023", f'{_plain(value)} is outside the valid range for parameter "{self.name}" {bounds}')
        return value

    def shown(self, value: str) -> str:
        """With the largest unit in which it is a whole number."""
        if not self.unit or self.type not in ("integer", "real") or float(value) <= 0:
            return value
        size = float(value) * self._base
        for unit, one in self._units.items():
            if size % one == 0:
                return f"{_plain(size / one)}{unit}"
        return f"{value}{self.unit}"

    def raw(self, shown: str) -> str:
        """As pg_settings has it."""
        return _plain(self.number(shown)) if self.unit and self.type in ("integer", "real") else shown

    @property
    def _units(self) -> dict[str, int]:
        return _TIME if self.unit in _TIME else _MEMORY

    @property
    def _base(self) -> int:
        pages = re.fullmatch(r"(\d*)(\D+)", self.unit)
        return int(pages[1] or 1) * self._units[pages[2]] if pages else 1

    def _size(self, unit: str, text: str) -> int:
        if not self.unit or unit not in self._units:
            raise self._invalid(text)
        return self._units[unit]

    def _invalid(self, text: str) -> PgError:
        return PgError("22023", f'invalid value for parameter "{self.name}": "{text}"')


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)

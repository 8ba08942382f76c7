"""What was proven to give the same values in another engine as in Spark: a `proven.tsv`, written by tests/lake/proof.

A line is a form and the type of its value. What has no line is not translated.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Unlike(ValueError):
    """A query says something of which it is not proven that the engine gives the same values."""


class Proof(Protocol):
    def type_of(self, form: str, sql: str) -> str:
        """Of the value of an expression that has this form; Unlike if nothing proves it. `sql` is for the message."""
        ...


class Proven:
    """By the file."""

    def __init__(self, forms: dict[str, str], engine: str) -> None:
        self.forms = forms
        self._engine = engine

    @classmethod
    def read(cls, file: Path, engine: str) -> Proven:
        lines = (line.partition("\t") for line in file.read_text(encoding="utf-8").splitlines())
        return cls({form: type_ for form, _, type_ in lines}, engine)

    def type_of(self, form: str, sql: str) -> str:
        found = self.forms.get(form)
        if found is None:
            shown = sql if len(sql) <= 60 else f"{sql[:60]}…"
            raise Unlike(f"`{shown}` is not proven to give the same value in {self._engine} as in Spark ({form})")
        return found

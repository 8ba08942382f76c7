"""What was proven to give the same values in DuckDB as in Spark: `proven.tsv`, written by tests/lake/proof.

A line is a form and the type of its value. What has no line is not translated.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Protocol

FILE = Path(__file__).with_name("proven.tsv")


class Unlike(ValueError):
    """A view says something of which it is not proven that DuckDB gives the same values."""


class Proof(Protocol):
    def type_of(self, form: str, sql: str) -> str:
        """Of the value of an expression that has this form; Unlike if nothing proves it. `sql` is for the message."""
        ...


class Proven:
    """By the file."""

    def __init__(self, forms: dict[str, str]) -> None:
        self.forms = forms

    @classmethod
    def read(cls) -> Proven:
        lines = (line.partition("\t") for line in FILE.read_text(encoding="utf-8").splitlines())
        return cls({form: type_ for form, _, type_ in lines})

    def type_of(self, form: str, sql: str) -> str:
        found = self.forms.get(form)
        if found is None:
            shown = sql if len(sql) <= 60 else f"{sql[:60]}…"
            raise Unlike(f"`{shown}` is not proven to give the same value in DuckDB as in Spark ({form})")
        return found


@cache
def proven() -> Proven:
    return Proven.read()

"""Which rows are quarantined, and why: quarantine rules as conditions on a single row, in Spark SQL.

The audits themselves use the same conditions, so a table passes them once its bad rows are in quarantine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mere.audits.audit import Audit
from mere.audits.builtin import broken, given
from mere.audits.evaluate import SAMPLE, Finding, Rows, State
from mere.audits.rules import TIME, AcceptedValues, Assert, NotNull, Relationships
from mere.names import RULES, RUN, TableName
from mere.sql.spelling.spark import name_of, quoted, text_literal
from mere.text.words import counted

# What a quarantine has besides the columns of its table.
FROM, TO = "_from", "_to"  # and RULES, RUN, AT
NO_RULES = "CAST(array() AS array<string>)"


@dataclass(frozen=True)
class Lookup:
    """The keys of another table, joined to the rows: `found` is true where there is such a key."""

    table: TableName
    pairs: tuple[tuple[str, str, str], ...]  # a column of the row, the key's column there, and how that is called here
    found: str

    @property
    def keys(self) -> list[str]:
        return [f"{quoted(key)} AS {quoted(name)}" for _, key, name in self.pairs]

    @property
    def condition(self) -> str:
        return " AND ".join(f"{quoted(column)} = {quoted(name)}" for column, _, name in self.pairs)


@dataclass(frozen=True)
class RowRule:
    name: str
    bad: str  # true for a bad row, false or NULL for any other
    place: str  # where it is written
    lookup: Lookup | None = None

    @property
    def helpers(self) -> list[str]:
        """The columns that a row has only for the rule to be asked."""
        return [*(name for *_, name in self.lookup.pairs), self.lookup.found] if self.lookup else []


def row_rules(audits: Iterable[Audit], time: str | None) -> list[RowRule]:
    """Of the audits that quarantine; and if there are any, of the `time` by which the rows lie in windows."""
    found = [_row_rule(audit, number) for number, audit in enumerate(each for each in audits if each.quarantine)]
    if found and time:
        found.append(RowRule(TIME, f"{quoted(time)} IS NULL", found[0].place))
    return found


def _row_rule(audit: Audit, number: int) -> RowRule:
    match audit.rule:
        case NotNull() | AcceptedValues() | Assert() as rule:
            return RowRule(audit.name, given(audit.where, broken(rule)), audit.place)
        case Relationships() as rule:
            pairs = enumerate(zip(rule.columns, rule.key, strict=True))
            named = tuple((column, key, f"_mere_key_{number}_{at}") for at, (column, key) in pairs)
            lookup = Lookup(rule.to, named, f"_mere_found_{number}")
            known = " AND ".join(f"{quoted(column)} IS NOT NULL" for column in rule.columns)
            bad = given(audit.where, f"{known} AND {quoted(lookup.found)} IS NULL")
            return RowRule(audit.name, bad, audit.place, lookup)
    raise AssertionError(f"{audit} cannot quarantine")


def broken_rules(rules: Sequence[RowRule]) -> str:
    """The names of the rules that a row breaks, as an array; empty for a good row, as nearly all rows are."""
    any_bad = " OR ".join(f"({rule.bad})" for rule in rules)
    names = gathered((rule.bad, text_literal(rule.name)) for rule in rules)
    return f"CASE WHEN {any_bad} THEN {names} ELSE {NO_RULES} END"


def gathered(told: Iterable[tuple[str, str]]) -> str:
    """Of conditions and texts, an array of the texts whose condition holds.

    Without a filter, for which Spark generates no code: the whole projection would be interpreted, row by row.
    """
    each = ", ".join(f"CASE WHEN {condition} THEN array({text}) ELSE {NO_RULES} END" for condition, text in told)
    return f"concat({each})" if each else NO_RULES


@dataclass(frozen=True)
class Counts:
    """Of what a query returned: all rows, those that were put aside, and those that break each rule."""

    rows: int = 0
    bad: int = 0
    by_rule: Mapping[str, int] = field(default_factory=dict)

    @property
    def good(self) -> int:
        return self.rows - self.bad

    def __add__(self, other: Counts) -> Counts:
        names = dict.fromkeys((*self.by_rule, *other.by_rule))
        by_rule = {name: self.by_rule.get(name, 0) + other.by_rule.get(name, 0) for name in names}
        return Counts(self.rows + other.rows, self.bad + other.bad, by_rule)

    def to_json(self) -> dict[str, Any]:
        return {"rows": self.rows, "bad": self.bad, "rules": dict(self.by_rule)}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Counts:
        return cls(raw["rows"], raw["bad"], raw["rules"])


def seen(table: TableName, run: str, rule: str) -> str:
    """A query of the rows that a run has put aside for a rule."""
    return (
        f"SELECT * FROM {name_of(table.quarantine)}"
        f" WHERE {quoted(RUN)} = {text_literal(run)} AND array_contains({quoted(RULES)}, {text_literal(rule)})"
    )


def judged(table: TableName, audit: Audit, counts: Counts, run: str, rows: Rows) -> Finding:
    """Whether there are not more bad rows than the rule allows, of all rows of a build; if there are, with some."""
    bad = counts.by_rule.get(audit.name, 0)
    good = audit.max_bad is None or audit.max_bad.permits(bad, counts.rows)
    message = f"{bad:,} of {counted(counts.rows, 'row')} in quarantine" if bad else ""
    query = seen(table, run, audit.name)
    if good:
        return Finding(table, audit, State.OK, message, bad, counts.rows, query=query)
    sample = tuple(rows(f"{query} LIMIT {SAMPLE}"))
    message += f", more than `max_bad` allows: {audit.max_bad} ({audit.place})"
    return Finding(table, audit, State.FAILED, message, bad, counts.rows, sample, query)

"""Each rule as Spark SQL: a query for the bad rows, and the numbers that decide whether it is met.

`mere audit` runs the same SQL on DuckDB, translated. So it keeps to what both understand alike: conditions, counts,
joins and GROUP BY. NULL is nowhere a bad value but for not_null; NaN equals itself and is greater than every number,
in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mere.audits.audit import Audit
from mere.audits.custom import THIS
from mere.audits.rules import (
    AcceptedValues,
    Assert,
    CustomQuery,
    Freshness,
    Key,
    MaxChange,
    NotNull,
    Relationships,
    RowCount,
    Unique,
)
from mere.names import TableName
from mere.sql.spelling.spark import name_of, quoted


@dataclass(frozen=True)
class Scope:
    """The rows of the windows that were just built: a condition on the time column of an incremental model."""

    column: str
    condition: str


@dataclass(frozen=True)
class Question:
    """What has to be asked to judge an audit. The numbers have names: checked, bad, apart, nulls, rows, latest."""

    bad_rows: str  # a query to see all of them
    scope: str | None = None
    where: str | None = None
    measures: Mapping[str, str] = field(default_factory=dict)  # aggregates over the table: audits share the scan
    query: str | None = None  # or a query of its own that gives the numbers as one row

    def is_settled(self, numbers: Mapping[str, Any]) -> bool:
        """Whether the shared scan has shown that no row is bad: as many values apart as rows, so that none is there
        twice. Only where it has not, which row is bad is worth a query of its own."""
        return "apart" in numbers and numbers["apart"] == numbers["checked"]


def question(audit: Audit, table: TableName, scope: Scope | None) -> Question:
    """With a scope, a rule that holds for each row by itself is asked only of the windows just built."""
    rule, where = audit.rule, audit.where
    within = scope.condition if scope else None
    match rule:
        case NotNull() | AcceptedValues() | Assert():
            return _of_rows(table, broken(rule), within, where)
        case Unique():
            # Rows of other windows can have the same key, unless the time is part of it.
            inside = scope is not None and scope.column.lower() in map(str.lower, rule.columns)
            return _unique(rule, table, within if inside else None, where)
        case Key(built=True):
            return _of_rows(table, _has_null(rule.columns), within, where)
        case Key():
            return _key(rule, table, None if rule.whole else within)
        case Relationships():
            return _relationships(rule, _rows(table, within, where))
        case CustomQuery():
            return _custom(rule, table, audit)
        case Freshness():
            latest = f"max({given(where, quoted(rule.column))})"
            # As text, because a date is compared by the day and Python has times of Spark in the local zone.
            measures = {"latest": f"CAST({latest} AS STRING)"}
            seen = f"SELECT max({quoted(rule.column)}) AS latest FROM {_rows(table, None, where)}"
            return Question(seen, where=where, measures=measures)
        case RowCount() | MaxChange():
            seen = f"SELECT count(*) AS rows FROM {_rows(table, None, where)}"
            return Question(seen, where=where, measures={"rows": _count(where)})


def scan(table: TableName, questions: Sequence[Question]) -> tuple[str, list[dict[str, str]]]:
    """One query for the measures of questions of one scope; and for each, the column in which a measure comes."""
    columns: dict[str, str] = {}
    names = [
        {name: columns.setdefault(sql, f"m{len(columns)}") for name, sql in each.measures.items()} for each in questions
    ]
    wheres = [each.where for each in questions]
    # What none of them looks at need not be read.
    some = " OR ".join(f"({where})" for where in dict.fromkeys(wheres)) if all(wheres) else None
    selected = ", ".join(f"{sql} AS {column}" for sql, column in columns.items())
    return f"SELECT {selected} FROM {_from(table, questions[0].scope, some)}", names


def _of_rows(table: TableName, condition: str, scope: str | None, where: str | None) -> Question:
    bad = given(where, condition)
    return Question(
        f"SELECT * FROM {_from(table, scope, bad)}",
        scope,
        where,
        {"checked": _count(where), "bad": _count(bad)},
    )


def broken(rule: NotNull | AcceptedValues | Assert) -> str:
    """True for a bad row, false for any other.

    By IS FALSE also because no engine takes that to the files: a file's greatest number leaves NaN out, so that both
    Spark and DuckDB would skip the file and not find it.
    """
    match rule:
        case NotNull():
            return _has_null(rule.columns)
        case AcceptedValues():
            return f"({quoted(rule.column)} IN ({', '.join(rule.values)})) IS FALSE"
        case Assert():
            return f"({rule.condition}) IS FALSE"


def _has_null(columns: Sequence[str]) -> str:
    return " OR ".join(f"{quoted(column)} IS NULL" for column in columns)


def given(where: str | None, value: str) -> str:
    """CASE and not AND: what `where` leaves out must not even be computed, for it might fail."""
    return f"CASE WHEN {where} THEN {value} END" if where else value


def _count(where: str | None) -> str:
    return f"count(CASE WHEN {where} THEN 1 END)" if where else "count(*)"


def _from(table: TableName, *conditions: str | None) -> str:
    found = " AND ".join(f"({condition})" for condition in conditions if condition)
    return f"{name_of(table)} WHERE {found}" if found else name_of(table)


def _rows(table: TableName, scope: str | None, where: str | None) -> str:
    return f"(SELECT * FROM {_from(table, scope, where)})" if scope or where else name_of(table)


def _unique(rule: Unique, table: TableName, scope: str | None, where: str | None) -> Question:
    keys, rows = _listed(rule.columns), _rows(table, scope, where)
    known = f"NOT ({_has_null(rule.columns)})"
    return Question(
        f"{_numbered(keys, rows, known)} WHERE alike > 1 ORDER BY {keys}",
        scope,
        where,
        {"checked": f"count({given(where, f'CASE WHEN {known} THEN 1 END')})", "apart": _apart(rule.columns, where)},
        "SELECT coalesce(sum(n), 0) AS checked, coalesce(sum(CASE WHEN n > 1 THEN n END), 0) AS bad"
        f" FROM (SELECT count(*) AS n FROM {rows} WHERE {known} GROUP BY {keys}) AS counted",
    )


def _key(rule: Key, table: TableName, scope: str | None) -> Question:
    """As `_unique`, but a NULL in a key is bad, and not like no other."""
    keys, rows, null = _listed(rule.columns), _rows(table, scope, None), _has_null(rule.columns)
    return Question(
        f"{_numbered(keys, rows)} WHERE alike > 1 OR {null} ORDER BY {keys}",
        scope,
        None,
        {"checked": _count(None), "apart": _apart(rule.columns, None)},
        "SELECT coalesce(sum(n), 0) AS checked, coalesce(sum(CASE WHEN no_key THEN n END), 0) AS nulls,"
        " coalesce(sum(CASE WHEN no_key OR n > 1 THEN n END), 0) AS bad"
        f" FROM (SELECT count(*) AS n, {null} AS no_key FROM {rows} GROUP BY {keys}) AS counted",
    )


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(map(quoted, columns))


def _apart(columns: Sequence[str], where: str | None) -> str:
    """How many different values the columns have together; those with a NULL are not counted, in either engine."""
    return f"count(DISTINCT {', '.join(given(where, quoted(column)) for column in columns)})"


def _numbered(keys: str, rows: str, condition: str | None = None) -> str:
    """The rows, each with how many there are of its key."""
    # Not by IN: DuckDB loses NaN in a join that it narrows by the keys' bounds.
    chosen = f" WHERE {condition}" if condition else ""
    return f"SELECT * FROM (SELECT *, count(*) OVER (PARTITION BY {keys}) AS alike FROM {rows}{chosen}) AS counted"


def _relationships(rule: Relationships, rows: str) -> Question:
    pairs = list(zip(rule.columns, rule.key, strict=True))
    known = " AND ".join(f"{THIS}.{quoted(column)} IS NOT NULL" for column in rule.columns)
    other = name_of(rule.to)
    same = " AND ".join(f"other.{quoted(key)} = {THIS}.{quoted(column)}" for column, key in pairs)
    keys = ", ".join(f"{quoted(key)} AS k{at}" for at, key in enumerate(rule.key))
    joined = " AND ".join(f"other.k{at} = {THIS}.{quoted(column)}" for at, (column, _) in enumerate(pairs))
    return Question(
        f"SELECT * FROM {rows} AS {THIS} WHERE {known} AND NOT EXISTS (SELECT 1 FROM {other} AS other WHERE {same})",
        query=f"SELECT count(*) AS checked, {_count(f'{known} AND other.k0 IS NULL')} AS bad"
        f" FROM {rows} AS {THIS} LEFT JOIN (SELECT DISTINCT {keys} FROM {other}) AS other ON {joined}",
    )


def _custom(rule: CustomQuery, table: TableName, audit: Audit) -> Question:
    bad_rows = f"WITH {THIS} AS (SELECT * FROM {_from(table, audit.where)}) SELECT * FROM (\n{rule.sql}\n) AS bad"
    return Question(
        bad_rows,
        where=audit.where,
        measures={"checked": _count(audit.where)} if audit.allow.percent else {},
        query=f"WITH {THIS} AS (SELECT * FROM {_from(table, audit.where)})"
        f" SELECT count(*) AS bad FROM (\n{rule.sql}\n) AS bad",
    )

"""Evaluates the audits of one table. Those that can share a scan do; failures are then looked at in detail."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Protocol

from mere.audits.audit import Audit
from mere.audits.builtin import Question, Scope, question, scan
from mere.audits.rules import Freshness, Key, MaxChange, RowCount, Severity
from mere.errors import MereError
from mere.names import TableName
from mere.text.words import counted
from mere.windows import instant, stamp

SAMPLE = 5

Row = Mapping[str, Any]


class Rows(Protocol):
    """Runs a query in Spark's SQL, with names like schema.table. See `engines`."""

    def __call__(self, sql: str) -> list[dict[str, Any]]: ...


class State(StrEnum):
    OK = "ok"
    WARNED = "warned"
    FAILED = "failed"
    ERROR = "error"  # the audit itself could not be run


@dataclass(frozen=True)
class Finding:
    table: TableName
    audit: Audit
    state: State
    message: str
    bad: int = 0  # rows; 1 for a rule about the table as a whole
    checked: int | None = None  # rows; None where they were not counted
    sample: tuple[Row, ...] = ()
    query: str = ""  # to see all bad rows, in Spark's SQL
    seconds: float = 0.0  # of the query that it may share with others

    @property
    def blocks(self) -> bool:
        """Whether nothing may be published."""
        return self.audit.severity is Severity.ERROR and self.state in (State.FAILED, State.ERROR)

    @property
    def broken(self) -> bool:
        """Whether the audit itself could not be run."""
        return self.state is State.ERROR

    def to_dict(self) -> dict[str, Any]:
        return {
            "table": str(self.table),
            "id": self.audit.id,
            "audit": self.audit.name,
            "severity": self.audit.severity,
            "state": self.state,
            "message": self.message,
            "bad": self.bad,
            "checked": self.checked,
            "sample": [{name: _plain(value) for name, value in row.items()} for row in self.sample],
            "query": self.query,
            "file": self.audit.file,
            "line": self.audit.line,
            "seconds": round(self.seconds, 3),
        }


@dataclass
class _Answer:
    numbers: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    error: MereError | None = None


def evaluate(
    table: TableName,
    audits: Sequence[Audit],
    rows: Rows,
    *,
    now: datetime,
    scope: Scope | None = None,
    count: int | None = None,
    before: int | None = None,
) -> list[Finding]:
    """A finding for each audit, in their order.

    `count` and `before` are the table's number of rows now and before, if the metadata tells them; then nothing is
    read for them. Without `before` there is nothing that max_change could compare with.
    """
    questions = [_without_known_count(audit, question(audit, table, scope), count) for audit in audits]
    answers = [_Answer({"rows": count}) for _ in audits]
    for within in dict.fromkeys(each.scope for each in questions):
        shared = [at for at, each in enumerate(questions) if each.measures and each.scope == within]
        _scan(table, shared, questions, answers, rows)
    for asked, answer in zip(questions, answers, strict=True):
        if asked.is_settled(answer.numbers):
            answer.numbers["bad"] = 0
        elif asked.query and not answer.error:
            _ask(asked.query, answer, rows)
    return [
        _finding(table, audit, asked, answer, _Context(rows, now, before))
        for audit, asked, answer in zip(audits, questions, answers, strict=True)
    ]


def _without_known_count(audit: Audit, asked: Question, count: int | None) -> Question:
    if count is None or audit.where or not isinstance(audit.rule, RowCount | MaxChange):
        return asked
    return Question(asked.bad_rows)


def _scan(
    table: TableName, shared: Sequence[int], questions: Sequence[Question], answers: Sequence[_Answer], rows: Rows
) -> None:
    if not shared:
        return
    sql, names = scan(table, [questions[at] for at in shared])
    answer = _Answer()
    _ask(sql, answer, rows)
    if answer.error and len(shared) > 1:
        # One of them asks for something that is not there; the others shall not suffer for it.
        for at in shared:
            _scan(table, [at], questions, answers, rows)
        return
    for at, columns in zip(shared, names, strict=True):
        answers[at].seconds, answers[at].error = answer.seconds, answer.error
        if not answer.error:
            answers[at].numbers |= {name: answer.numbers[column] for name, column in columns.items()}


def _ask(sql: str, answer: _Answer, rows: Rows) -> None:
    started = time.perf_counter()
    try:
        answer.numbers |= rows(sql)[0]
    except MereError as error:
        answer.error = error
    answer.seconds += time.perf_counter() - started


@dataclass(frozen=True)
class _Context:
    rows: Rows
    now: datetime
    before: int | None


@dataclass(frozen=True)
class _Verdict:
    good: bool
    message: str
    bad: int = 0
    checked: int | None = None


def _finding(table: TableName, audit: Audit, asked: Question, answer: _Answer, context: _Context) -> Finding:
    if answer.error:
        return _broken(table, audit, asked, answer, answer.error)
    try:
        verdict = _judge(audit, answer.numbers, context)
    except MereError as error:
        return _broken(table, audit, asked, answer, error)
    state = State.OK if verdict.good else State.WARNED if audit.severity is Severity.WARN else State.FAILED
    sample: tuple[Row, ...] = ()
    message = verdict.message
    if not verdict.good and "bad" in answer.numbers:
        try:
            sample = tuple(context.rows(f"SELECT * FROM ({asked.bad_rows}) AS bad LIMIT {SAMPLE}"))
        except MereError as error:
            message += f"; the bad rows cannot be shown: {_first_line(error)}"
    return Finding(table, audit, state, message, verdict.bad, verdict.checked, sample, asked.bad_rows, answer.seconds)


def _broken(table: TableName, audit: Audit, asked: Question, answer: _Answer, error: MereError) -> Finding:
    remedy = f" {error.remedy}" if error.remedy else ""
    return Finding(
        table,
        audit,
        State.ERROR,
        f"{audit.place}: {_first_line(error)}{remedy}",
        query=asked.bad_rows,
        seconds=answer.seconds,
    )


def _judge(audit: Audit, numbers: Mapping[str, Any], context: _Context) -> _Verdict:
    match audit.rule:
        case RowCount() as rule:
            return _row_count(rule, int(numbers["rows"]))
        case MaxChange() as rule:
            return _max_change(rule, int(numbers["rows"]), context.before)
        case Freshness() as rule:
            return _freshness(rule, numbers["latest"], context.now)
    bad = int(numbers["bad"])
    checked = int(numbers["checked"]) if "checked" in numbers else None
    number = counted(bad, "row") if checked is None else f"{bad:,} of {counted(checked, 'row')}"
    message = f"{number} {'is' if bad == 1 else 'are'} bad"
    if isinstance(audit.rule, Key):
        message += f": {_broken_key(audit.rule, bad, int(numbers.get('nulls', bad)))}"
    if bad and audit.allow.amount:
        message += f", {audit.allow} allowed"
    return _Verdict(audit.allow.permits(bad, checked or 0), message if bad else "", bad, checked)


def _broken_key(rule: Key, bad: int, nulls: int) -> str:
    found = [(nulls, f"with NULL in {rule}"), (bad - nulls, f"with the same {rule} as another")]
    return " and ".join(f"{rows:,} {what}" for rows, what in found if rows)


def _row_count(rule: RowCount, rows: int) -> _Verdict:
    good = (rule.min is None or rows >= rule.min) and (rule.max is None or rows <= rule.max)
    return _Verdict(good, counted(rows, "row") + ("" if good else f", not {rule}"), int(not good), rows)


def _max_change(rule: MaxChange, rows: int, before: int | None) -> _Verdict:
    if not before:
        why = "nothing before to compare with" if before is None else "none before"
        return _Verdict(True, f"{counted(rows, 'row')}; {why}", checked=rows)
    change = rows - before
    good = rule.by.permits(abs(change), before)
    share = f"{change / before:+.1%}"
    message = f"{before:,} → {counted(rows, 'row')} ({share})" + ("" if good else f", {rule.by} allowed")
    return _Verdict(good, message, int(not good), rows)


def _freshness(rule: Freshness, latest: str | None, now: datetime) -> _Verdict:
    if latest is None:
        return _Verdict(False, f"there is no {rule.column} at all", 1)
    try:
        at = instant(latest)
    except ValueError:
        raise MereError(f"freshness needs a date or a time, and {rule.column} has {latest!r}.") from None
    oldest = now.astimezone(UTC) - rule.within
    if len(latest) == len("2024-01-01"):
        oldest = oldest.replace(hour=0, minute=0, second=0, microsecond=0)
    good = at >= oldest
    return _Verdict(
        good, f"the latest is {stamp(at)}" + ("" if good else f", older than {stamp(oldest)}"), int(not good)
    )


def _first_line(error: MereError) -> str:
    return error.message.partition("\n")[0]  # what follows is an excerpt of a query that nobody wrote


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if isinstance(value, bool | int | str | None) else str(value)

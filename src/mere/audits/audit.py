"""An audit as the user writes it: one rule about a table, its severity, and how many violations it allows.

audits:
  - not_null: [id, amount]
  - assert: amount >= 0
    where: status = 'paid'
    allow: 1%
    severity: warn
  - not_null: city
    quarantine: true
    max_bad: 1%
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from mere.audits.custom import OPTIONS, THIS, Custom, load_customs
from mere.audits.rules import (
    BUILT_IN,
    OF_ONE_ROW,
    AcceptedValues,
    Allowed,
    Assert,
    CustomQuery,
    Freshness,
    MaxChange,
    NotNull,
    Relationships,
    RowCount,
    Rule,
    Severity,
    Unique,
)
from mere.entries import Entry, nearest
from mere.errors import InvalidName
from mere.names import TableName, parse_age
from mere.sql.spelling.spark import text_literal
from mere.text.words import counted

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = [
    "DEFAULT_MAX_BAD",
    "Allowed",
    "Audit",
    "Custom",
    "Rule",
    "Severity",
    "load_customs",
    "parse",
    "read_max_bad",
]

# A rule about the table as a whole: it has no bad rows of which some could be allowed.
_OF_THE_TABLE = (RowCount, Freshness, MaxChange)
_ALLOWED = re.compile(r"(\d+)|(\d+(?:\.\d+)?)\s*%")
_NONE = Allowed()
# Bad rows that a share of `max_bad` permits whatever the share, unless `floor` says otherwise.
_FLOOR = 10
DEFAULT_MAX_BAD = Allowed(Decimal(1), percent=True, floor=_FLOOR)
_READABLE = 40  # letters of its name in an audit's id
_DURATION = re.compile(r"(\d+)\s*(second|minute|hour|day|week)s?")


@dataclass(frozen=True)
class Audit:
    rule: Rule
    file: str
    line: int
    severity: Severity = Severity.ERROR
    where: str | None = None
    allow: Allowed = _NONE
    given_name: str | None = None
    quarantine: bool = False  # its bad rows are put aside, and the others go through
    max_bad: Allowed | None = None  # more of them fail the run nonetheless

    @property
    def name(self) -> str:
        return self.given_name or (f"{self.rule.word}({self.rule})" if str(self.rule) else self.rule.word)

    @property
    def id(self) -> str:
        """Letters, digits and `_`; the same wherever in the list it stands, and however bad it is to break it."""
        said = repr((self.rule.word, str(self.rule), self.where, self.given_name))
        readable = re.sub(r"[^A-Za-z0-9]+", "_", self.name).strip("_")[:_READABLE].rstrip("_")
        return f"{readable}_{hashlib.sha256(said.encode()).hexdigest()[:8]}"

    @property
    def reads(self) -> tuple[TableName, ...]:
        """The tables that it reads besides its own."""
        if isinstance(self.rule, Relationships):
            return (self.rule.to,)
        return self.rule.reads if isinstance(self.rule, CustomQuery) else ()

    @property
    def portable(self) -> bool:
        """Whether every engine understands it alike: it looks at one table, and nothing in it is the user's own SQL."""
        return self.where is None and not isinstance(self.rule, Assert | CustomQuery | Relationships)

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    def __str__(self) -> str:
        return self.name


def parse(entry: Entry, customs: Mapping[str, Custom]) -> Audit:
    """One item of `audits:`: a map with exactly one rule, and options."""
    if not entry.is_map:
        raise entry.error("an audit must map one rule to its options", "Write for example `- not_null: [id]`.")
    found = entry.entries()
    rules = [key for key in found if key not in OPTIONS]
    for key in rules:
        if key not in BUILT_IN and key not in customs:
            raise found[key].error(f"there is no audit `{key}`", _nearest_rule(key, customs))
    if len(rules) != 1:
        stated = f"has {len(rules)} rules: {', '.join(rules)}" if rules else "has no rule"
        raise entry.error(f"an audit {stated}", "Begin each with a dash of its own, and one rule: `- not_null: [id]`.")
    word = rules[0]
    custom = customs.get(word)
    rule = _custom_query(custom, found[word]) if custom else _RULES[BUILT_IN[word]](found[word])
    return _with_options(entry, rule, found, custom.severity if custom else Severity.ERROR)


def _with_options(entry: Entry, rule: Rule, found: Mapping[str, Entry], severity: Severity) -> Audit:
    if "allow" in found and isinstance(rule, _OF_THE_TABLE):
        raise found["allow"].error(f"`allow` has no effect on {rule.word}, which has no bad rows")
    if "where" in found and isinstance(rule, MaxChange):
        raise found["where"].error(
            "`where` has no effect on max_change: the previous row count is known only for the whole table"
        )
    quarantine = "quarantine" in found and found["quarantine"].flag()
    if quarantine:
        _refuse_quarantine(rule, found)
    elif "max_bad" in found:
        raise found["max_bad"].error(
            "`max_bad` has no effect without `quarantine: true`", "Without it, the limit is `allow`."
        )
    if "severity" in found:
        severity = Severity(found["severity"].choice(*Severity))
    return Audit(
        rule,
        str(entry.file),
        entry.line,
        severity,
        _where(found["where"]) if "where" in found else None,
        read_allowed(found["allow"]) if "allow" in found else _NONE,
        found["name"].text() if "name" in found else None,
        quarantine,
        read_max_bad(found["max_bad"]) if "max_bad" in found else None,
    )


def _refuse_quarantine(rule: Rule, found: Mapping[str, Entry]) -> None:
    if not isinstance(rule, OF_ONE_ROW):
        able = ", ".join(each.word for each in OF_ONE_ROW)
        raise found["quarantine"].error(
            f"{rule.word} cannot quarantine: whether a row is bad does not depend on that row alone",
            f"These can: {able}. Without `quarantine`, {rule.word} keeps the run from being published.",
        )
    for key, why in (("allow", "`max_bad` is the limit"), ("severity", "bad rows are put aside, and never published")):
        if key in found:
            raise found[key].error(f"`{key}` has no effect on a rule that quarantines: {why}", "Leave it out.")


def _nearest_rule(key: str, customs: Mapping[str, Custom]) -> str:
    options = nearest(key, OPTIONS, "options")
    return nearest(key, (*BUILT_IN, *customs), "audits") + (
        f" {options}" if options.startswith("Did") else f" Options: {', '.join(OPTIONS)}."
    )


def _columns(entry: Entry) -> tuple[str, ...]:
    columns = entry.texts()
    if not columns:
        raise entry.error(f"`{entry.key}` names no column")
    return columns


def _needs(entry: Entry, *keys: str, optional: tuple[str, ...] = ()) -> dict[str, Entry]:
    found = entry.keys(*keys, *optional)
    for key in keys:
        if key not in found:
            raise entry.error(f"`{entry.key}` needs `{key}`", f"Its keys: {', '.join((*keys, *optional))}.")
    return found


def _accepted_values(entry: Entry) -> AcceptedValues:
    found = _needs(entry, "column", "values")
    values = tuple(_literal(item) for item in found["values"].items())
    if not values:
        raise found["values"].error("`values` is empty: no value would be accepted")
    return AcceptedValues(found["column"].text(), values)


def _literal(entry: Entry) -> str:
    """A YAML value as a literal of Spark's SQL."""
    value = entry.value()
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value) if str(value).lstrip("-")[:1].isdigit() else f"CAST('{value}' AS DOUBLE)"
        case datetime():
            return f"TIMESTAMP '{value.isoformat(' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case str():
            return text_literal(value)
        case None:
            raise entry.error("NULL is always accepted", "Leave it out. To refuse NULL, add the audit not_null.")
    raise entry.error("an accepted value must be a text, a number, a date or true or false")


def _relationships(entry: Entry) -> Relationships:
    found = _needs(entry, "column", "to", optional=("key",))
    columns = _columns(found["column"])
    key = _columns(found["key"]) if "key" in found else columns
    if len(columns) != len(key):
        raise entry.error(f"{counted(len(columns), 'column')} cannot point to a key of {len(key)}")
    try:
        to = TableName.parse(found["to"].text())
    except InvalidName as error:
        raise found["to"].error(error.message, error.remedy) from error
    return Relationships(columns, to, key)


def _row_count(entry: Entry) -> RowCount:
    found = entry.keys("min", "max")
    numbers = {key: _whole(value) for key, value in found.items()}
    if not numbers:
        raise entry.error("`row_count` needs `min`, `max` or both", "Write for example `row_count: {min: 1}`.")
    if numbers.get("min", 0) > numbers.get("max", numbers.get("min", 0)):
        raise entry.error("`row_count` has a `min` above its `max`")
    return RowCount(numbers.get("min"), numbers.get("max"))


def _whole(entry: Entry) -> int:
    text = entry.text().replace("_", "")
    if not text.isdecimal():
        raise entry.error(f"`{entry.key}` must be a whole number")
    return int(text)


def _freshness(entry: Entry) -> Freshness:
    found = _needs(entry, "column", "within")
    text = found["within"].text()
    words = _DURATION.fullmatch(text)
    try:
        within = timedelta(**{f"{words[2]}s": int(words[1])}) if words else parse_age(text)
    except OverflowError:
        within = None
    if within is None:
        raise found["within"].error(f"`within` cannot be `{text}`", "Write for example `2 days`, `36 hours` or `2d`.")
    return Freshness(found["column"].text(), within)


def read_allowed(entry: Entry) -> Allowed:
    text = entry.text()
    found = _ALLOWED.fullmatch(text)
    if not found:
        raise entry.error(f"`{entry.key}` cannot be `{text}`", "Write a number of rows, or a share such as `1%`.")
    return Allowed(Decimal(found[1] or found[2]), percent=found[1] is None)


def read_max_bad(entry: Entry) -> Allowed:
    """`100`, `1%`, or `{share: 1%, floor: 3}`. A share of nothing permits nothing."""
    if not entry.is_map:
        allowed = read_allowed(entry)
        return replace(allowed, floor=_FLOOR) if allowed.percent and allowed.amount else allowed
    found = entry.keys("share", "floor")
    share = read_allowed(found["share"]) if "share" in found else _NONE
    if "floor" not in found or not share.percent:
        raise entry.error(f"`{entry.key}` needs a `share` and a `floor`", "Write for example `{share: 1%, floor: 3}`.")
    floor = read_allowed(found["floor"])
    if floor.percent:
        raise found["floor"].error("`floor` is a number of rows", "Write for example `{share: 1%, floor: 3}`.")
    return replace(share, floor=int(floor.amount))


def _condition(entry: Entry) -> str:
    """SQL that is one expression: it will stand in brackets inside of a query."""
    return _read_condition(entry)[0]


def _where(entry: Entry) -> str:
    """The same, such that a row of which it is true is always found.

    Engines skip a file by its least and greatest number, and those leave NaN out: a comparison that may be one of
    numbers must not get as far. Dates and texts may, which is what makes `where` save time.
    """
    from sqlglot import exp

    text, condition = _read_condition(entry)
    parts = list(condition.flatten()) if isinstance(condition, exp.And) else [condition]
    return text if all(map(_compares_texts, parts)) else f"({text}) IS TRUE"


def _compares_texts(part: exp.Expr) -> bool:
    from sqlglot import exp

    literals = list(part.find_all(exp.Literal))
    return (
        isinstance(part, exp.EQ | exp.GT | exp.GTE | exp.LT | exp.LTE | exp.Between | exp.In)
        and bool(literals)
        and all(literal.is_string for literal in literals)
    )


def _read_condition(entry: Entry) -> tuple[str, exp.Expr]:
    import sqlglot
    from sqlglot import exp

    from mere.sql.spark.read import SparkView

    text = entry.text().strip()
    try:
        condition = SparkView().parse_into(exp.Condition, text)[0]
    except sqlglot.errors.SqlglotError as error:
        raise entry.error(f"`{text}` is not a condition in SQL: {_first_problem(error)}") from error
    if condition is None or any(node.comments for node in condition.walk()):
        raise entry.error("a condition cannot have an SQL comment in it", "Write the comment in YAML, after a #.")
    if condition.find(exp.Query):
        raise entry.error("a condition cannot have a query in it", "Write relationships, or an audit of your own.")
    return text, condition


def _parsed(entry: Entry, sql: str, file: str) -> exp.Expr:
    import sqlglot

    from mere.sql.spark.read import SparkView

    try:
        found = sqlglot.parse(sql, dialect=SparkView)
    except sqlglot.errors.SqlglotError as error:
        raise entry.error(f"{file}, filled in, is not SQL: {_first_problem(error)}") from error
    if len(found) != 1 or found[0] is None:
        raise entry.error(f"{file} is not one SQL statement")
    return found[0]


def _first_problem(error: Exception) -> str:
    details = getattr(error, "errors", None) or [{}]
    return str(details[-1].get("description") or error).splitlines()[0].rstrip(".")


def _custom_query(custom: Custom, entry: Entry) -> CustomQuery:
    arguments = _arguments(custom, entry)
    from jinja2 import TemplateError

    try:
        sql = custom.render(arguments)
    except (TemplateError, TypeError) as error:
        raise entry.error(f"audit {custom.name} cannot be filled in: {error}", f"See {custom.file}.") from error
    shown = ", ".join(f"{name}: {value}" for name, value in arguments.items())
    return CustomQuery(custom.name, shown, sql, _tables(custom, entry, sql))


def _arguments(custom: Custom, entry: Entry) -> dict[str, object]:
    wanted = custom.required or custom.parameters
    if not entry.is_map and entry.value() is not None and len(wanted) == 1:
        return {wanted[0]: entry.value()}  # `no_gaps: order_date`
    arguments = {name: value.value() for name, value in entry.keys(*custom.parameters).items()}
    for name in custom.required:
        if name not in arguments:
            raise entry.error(f"audit {custom.name} needs `{name}`", f"Its parameters: {', '.join(custom.parameters)}.")
    return arguments


def _tables(custom: Custom, entry: Entry, sql: str) -> tuple[TableName, ...]:
    from sqlglot import exp
    from sqlglot.optimizer.scope import traverse_scope

    from mere.sql.scopes import table_name

    query = _parsed(entry, sql, custom.file)
    if not isinstance(query, exp.Query):
        raise entry.error(f"{custom.file} is not a query", "An audit is a SELECT of the bad rows.")
    sources = [source for scope in traverse_scope(query) for source in scope.sources.values()]
    found: dict[TableName, None] = {}
    for table in sources:
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier) or table.name == THIS:
            continue
        if len(table.parts) < 2:
            raise entry.error(f"{custom.file} reads `{table.name}`, a name without a schema", "Write schema.table.")
        found[table_name(table)] = None
    return tuple(found)


_RULES: dict[type[Rule], Callable[[Entry], Rule]] = {
    NotNull: lambda entry: NotNull(_columns(entry)),
    Unique: lambda entry: Unique(_columns(entry)),
    AcceptedValues: _accepted_values,
    Relationships: _relationships,
    Assert: lambda entry: Assert(_condition(entry)),
    RowCount: _row_count,
    Freshness: _freshness,
    MaxChange: lambda entry: MaxChange(read_allowed(entry)),
}

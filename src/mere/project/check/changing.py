"""Values that change by themselves, such as now() and rand(): with them, nobody knows when a table is up to date."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from mere.project.check.findings import Finding, position
from mere.project.kinds import Kind
from mere.project.model import Model, Python, Sql
from mere.project.rules import Rule

if TYPE_CHECKING:
    from sqlglot import exp

# By sqlglot's name for the function, or Spark's. Those of time have something to write in their place.
_TIMES = {
    **dict.fromkeys(("now", "currenttimestamp", "currentdatetime", "localtimestamp", "getdate", "sysdate"), ":now"),
    **dict.fromkeys(("currentdate", "curdate"), "CAST(:now AS DATE)"),
    **dict.fromkeys(("currenttime", "localtime", "current_time"), "date_format(:now, 'HH:mm:ss')"),
}
_RANDOM = frozenset({"rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle"})
_ROW_NUMBERS = frozenset({"monotonically_increasing_id"})
_OTHERS = frozenset(
    {
        *("spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length"),
        *("currentuser", "sessionuser", "session_user", "currentcatalog", "current_catalog"),
    }
)
CHANGING_SQL = frozenset({*_TIMES, *_RANDOM, *_ROW_NUMBERS, *_OTHERS})

_FUNCTIONS = "pyspark.sql.functions"
_CHANGING_PYTHON: Mapping[str, frozenset[str]] = {
    _FUNCTIONS: frozenset(
        {
            *("now", "current_timestamp", "current_date", "curdate", "localtimestamp", "current_time", "current_user"),
            *("rand", "randn", "randstr", "uniform", "uuid", "shuffle", "user", "session_user", "current_catalog"),
            *("monotonically_increasing_id", "spark_partition_id", "input_file_name"),
        }
    ),
    "datetime.datetime": frozenset({"now", "utcnow", "today"}),
    "datetime.date": frozenset({"today"}),
    "time": frozenset({"time", "time_ns", "localtime", "gmtime", "ctime", "monotonic", "perf_counter"}),
    "random": frozenset({"random", "randint", "randrange", "choice", "choices", "sample", "shuffle", "uniform"}),
    "uuid": frozenset({"uuid1", "uuid4"}),
    "secrets": frozenset({"token_hex", "token_bytes", "token_urlsafe", "randbelow", "choice"}),
    "os": frozenset({"urandom"}),
    "pandas.Timestamp": frozenset({"now", "today", "utcnow"}),
    "numpy.random": frozenset({"rand", "randn", "random", "randint", "uniform", "normal", "choice", "shuffle"}),
}
# Methods and functions of PySpark that take SQL as text.
_TAKES_SQL = frozenset({"expr", "selectExpr", "where", "filter", "sql"})
_IN_TEXT = re.compile(
    r"\b(now|current_timestamp|current_date|curdate|localtimestamp|rand|randn|random|uuid|shuffle"
    r"|monotonically_increasing_id)\s*\(\s*\)|\b(current_timestamp|current_date)\b",
    re.IGNORECASE,
)


def changing_sql(model: Model, body: Sql, tree: exp.Expr) -> Iterator[Finding]:
    from sqlglot import exp

    for node in tree.find_all(exp.Func):
        name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key
        if name in CHANGING_SQL:
            line, column = position(node, body)
            message = f"`{node.sql('spark').lower()}` has a different value in every run"
            yield Finding(Rule.CHANGING_VALUE, message, model.file, line, column, _remedy(name, model), str(model))


def _remedy(name: str, model: Model) -> str:
    key = ", ".join(model.key) or "id"
    if name in _RANDOM:
        return f"Derive it from the row, which gives it the same value every time: `xxhash64({key})`."
    if name in _ROW_NUMBERS:
        return f"Number the rows in an order: `row_number() OVER (ORDER BY {key})`."
    if name in _OTHERS:
        return "Leave it out: it depends on who runs the model and where."
    if model.kind.rules.adds:
        return "Leave it out: an scd2 model knows from when each version holds. Add it where the history is read."
    kind = "`kind: full` and " if not model.kind.rules.stored else ""
    return (
        f"Write `{_TIMES[name]}` in its place, and {kind}`now: day` in the header:"
        " it is bound once per run and part of the state."
    )


def changing_rules(model: Model) -> Iterator[Finding]:
    """Rules that quarantine decide which rows a table has. Other audits judge rows, and may ask what time it is."""
    from sqlglot import exp, parse_one

    from mere.audits.rules import Assert
    from mere.sql.spark.read import SparkView

    for audit in model.audits:
        if not audit.quarantine or model.kind is Kind.SOURCE:
            continue
        for text in (audit.where, audit.rule.condition if isinstance(audit.rule, Assert) else None):
            for node in parse_one(text, dialect=SparkView).find_all(exp.Func) if text else ():
                name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key
                if name in CHANGING_SQL:
                    value = f"`{node.sql('spark').lower()}`"
                    message = f"{audit.name} quarantines by {value}, which has a different value in every run"
                    remedy = "Compare with a column instead, such as `:now AS as_of` in the query."
                    yield Finding(Rule.CHANGING_VALUE, message, audit.file, audit.line, None, remedy, str(model))


def changing_python(model: Model, body: Python, tree: ast.Module) -> Iterator[Finding]:
    """What the model's function calls, and functions of its file that it calls."""
    origins = _origins(tree)
    for function in _reached(body.function, tree):
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _changes(node, origins):
                message = f"`{ast.unparse(node)}` has a different value in every run"
                remedy = 'Take a parameter `now` and declare its precision (now="day"): it is bound once per run.'
                place = model.file, node.lineno, node.col_offset + 1
                yield Finding(Rule.CHANGING_VALUE, message, *place, remedy, str(model))


def _changes(call: ast.Call, origins: Mapping[str, str]) -> bool:
    if not isinstance(call.func, ast.Name | ast.Attribute):
        return False
    head, _, rest = ast.unparse(call.func).partition(".")
    module, _, name = f"{origins.get(head, '')}.{rest}".strip(".").rpartition(".")
    if name in _CHANGING_PYTHON.get(module, ()):
        return True
    if module == _FUNCTIONS and name == "unix_timestamp":
        return not call.args and not call.keywords
    called = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id
    texts = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return called in _TAKES_SQL and any(_IN_TEXT.search(re.sub(r"'[^']*'", "''", text)) for text in texts)


def _origins(tree: ast.Module) -> dict[str, str]:
    """Of each imported name, the module or the thing in it that it stands for."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if alias.name == "*":
                    found |= {name: f"{node.module}.{name}" for name in _CHANGING_PYTHON.get(node.module, ())}
                else:
                    found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def _reached(name: str, tree: ast.Module) -> list[ast.FunctionDef]:
    functions = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
    left, found = [name], dict[str, ast.FunctionDef]()
    while left:
        at = left.pop()
        if at in functions and at not in found:
            found[at] = functions[at]
            left += [node.id for node in ast.walk(functions[at]) if isinstance(node, ast.Name)]
    return list(found.values())

"""How a query is restricted to a window: the column of each table that it compares with :start and :end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from mere.names import near
from mere.sql.lookback import placeholder
from mere.sql.mixing import Origin, Path, inside, is_coarser, mixed_by, names_of, origins, outputs
from mere.sql.spark.read import SparkView
from mere.windows import Grain, in_words

BOUNDS = ("start", "end")
_MIRRORED = {"gte": "lte", "gt": "lt", "lt": "gt", "lte": "gte"}
_COMPARISONS = (exp.GTE, exp.GT, exp.LT, exp.LTE, exp.EQ, exp.Between)
# With them, rows are read that lie in other windows than the one that is built.
_SHIFTS = (
    *(exp.Add, exp.Sub, exp.Interval, exp.DateAdd, exp.DateSub, exp.DateDiff, exp.TsOrDsAdd, exp.TsOrDsDiff),
    *(exp.AddMonths, exp.TimestampAdd, exp.TimestampSub, exp.TimestampDiff, exp.MonthsBetween),
)

Refuse = Callable[[str, exp.Expr, str], None]  # what is wrong, where, and what to do


@dataclass(frozen=True)
class _Comparison:
    query: Scope
    mixed_by: exp.Expr | None  # what mixes rows before


@dataclass(frozen=True)
class _Compared:
    """A column of a table, and its comparisons with each bound."""

    table: exp.Table
    column: str
    start: list[_Comparison] = field(default_factory=list)
    end: list[_Comparison] = field(default_factory=list)

    @property
    def is_chosen_by(self) -> bool:
        return bool(self.start and self.end)

    @property
    def mixed_by(self) -> exp.Expr | None:
        for comparisons in (self.start, self.end):
            if all(each.mixed_by for each in comparisons):
                return comparisons[0].mixed_by
        return None


class Times:
    """Through CTEs, aliases, subqueries, unions and joins."""

    def __init__(self, tree: exp.Expr, grain: Grain, refuse: Refuse, context: timedelta = timedelta()) -> None:
        self._compared: dict[tuple[int, str], _Compared] = {}
        self._shifted: dict[int, str] = {}
        self._tree = tree
        self._grain = grain
        self._refuse = refuse
        self._context = context
        self.looks_back = False  # into the context
        # A name that is defined by a WITH around it is not a table, nor is a function such as range(5).
        self._scopes = traverse_scope(tree) if isinstance(tree, exp.Query) else []
        sources = [each for scope in self._scopes for each in scope.sources.values() if isinstance(each, exp.Table)]
        # A scope has one source of a name, and Spark may have more. The names in a hint are no tables.
        sources += [each for each in tree.find_all(exp.Table) if each.db and each.find_ancestor(exp.Hint) is None]
        self.tables = list({id(each): each for each in sources if isinstance(each.this, exp.Identifier)}.values())
        for scope in self._scopes:
            for comparison in scope.find_all(*_COMPARISONS):
                self._look_for_shift(scope, comparison)
                self._compare(scope, comparison)

    def column_of(self, table: exp.Table) -> str | None:
        found = self._chosen(table)
        return found[0].column if len(found) == 1 and found[0].mixed_by is None else None

    def mixed(self, table: exp.Table) -> str | None:
        """What makes rows of the table's rows of several times, before they are cut to the window."""
        return next((shown(each.mixed_by) for each in self._chosen(table) if each.mixed_by), None)

    def _chosen(self, table: exp.Table) -> list[_Compared]:
        return [each for each in self._compared.values() if each.table is table and each.is_chosen_by]

    def shifted(self, table: exp.Table) -> str | None:
        """A comparison by which rows outside of the window are read."""
        return self._shifted.get(id(table))

    def check_output(self, name: str) -> None:
        """That the query's time column lies in the window by which the rows were chosen."""
        chosen = {key: each for key, each in self._compared.items() if each.is_chosen_by}
        if not chosen:
            return
        names = names_of(self._scopes[-1])
        if names and all(names) and name.lower() not in names:
            message = f"the query has no column `{name}`, which is its time_column.{near(name, names)}"
            self._refuse(message, self._tree, f"Write an expression AS {name}, or name another `time_column`.")
            return
        found = list(outputs(self._scopes[-1], name, self._grain))
        by_time = [(each, chosen[key]) for each in found if (key := _key(each)) in chosen]
        others = [each for each in found if _key(each) not in chosen]
        if any(each.certain for each in others) or (others and not by_time):
            self._refuse_output(name, found, next(iter(chosen.values())))
            return
        for origin, compared in [] if self._context else by_time:
            if (mixer := mixed_by(_after(origin, compared), self._grain)) is not None:
                self._refuse(
                    f"`{shown(mixer)}` looks at rows of several windows, so its result depends on how many of them"
                    " are built at once",
                    mixer,
                    f"Keep them apart by their {self._grain} in PARTITION BY or GROUP BY, or write `kind: full`."
                    f" {_if_it_is_right(compared)}",
                )
                return

    def _refuse_output(self, name: str, found: list[Origin], compared: _Compared) -> None:
        value = next((step.value for each in found for step in each.path if step.value is not None), self._tree)
        column = compared.column
        self._refuse(
            f"the time_column `{name}` does not say in which {self._grain} the row of {_name(compared.table)} lies that"
            f" was chosen by `{column}`",
            value,
            f"Make it of {column}, such as date_trunc('{self._grain}', {column}), or choose the rows by what it is made"
            f" of. {_if_it_is_right(compared)}",
        )

    def _look_for_shift(self, scope: Scope, comparison: exp.Expr) -> None:
        is_bounded = any(each.name in BOUNDS for each in comparison.find_all(exp.Placeholder))
        if not is_bounded or not comparison.find(*_SHIFTS):
            return
        for column in comparison.find_all(exp.Column):
            for origin in origins(scope, column, self._grain):
                if origin.table is not None:
                    self._shifted[id(origin.table)] = shown(comparison)

    def _compare(self, scope: Scope, comparison: exp.Expr) -> None:
        if isinstance(comparison, exp.Between):
            if "end" in (self._bound(comparison.args["low"]), self._bound(comparison.args["high"])):
                self._refuse_open(comparison)
            return
        left, right = comparison.this, comparison.expression
        bound, column, operator = self._bound(right), inside(left), comparison.key
        if bound is None:
            bound, column, operator = self._bound(left), inside(right), _MIRRORED.get(comparison.key, comparison.key)
        if bound is None or not isinstance(column, exp.Column):
            return
        if operator != {"start": "gte", "end": "lt"}[bound]:
            self._refuse_open(comparison)
            return
        if is_coarser(left, self._grain) or is_coarser(right, self._grain):
            self._refuse(
                f"`{shown(comparison)}` cuts times to more than one {self._grain}, which is the model's grain",
                comparison,
                "Compare the column itself with :start and :end, or choose a larger `grain`.",
            )
        joined = _filtered_by(comparison)
        if joined is None:
            return
        for origin in origins(scope, column, self._grain, joined):
            if origin.table is None or not origin.certain:
                continue
            compared = self._compared.setdefault(_key(origin), _Compared(origin.table, origin.column))
            comparisons = compared.start if bound == "start" else compared.end
            comparisons.append(_Comparison(scope, mixed_by(origin.path, self._grain)))

    def _bound(self, node: exp.Expr) -> str | None:
        """`start` of :start, also as a date, or of what lies before it, but within the context."""
        name, back = placeholder(node) or ("", timedelta())
        if name not in BOUNDS or (back and (name != "start" or not timedelta() < back or not self._context)):
            return None
        if back > self._context:
            self._refuse(
                f"`{shown(node)}` looks further back than the context of {in_words(self._context)}",
                node,
                f"Write `context: {in_words(back)}`.",
            )
        self.looks_back = self.looks_back or bool(back)
        return name

    def _refuse_open(self, comparison: exp.Expr) -> None:
        self._refuse(
            f"`{comparison.sql(SparkView)}`: a window begins with :start and ends before :end",
            comparison,
            "Write `column >= :start AND column < :end`.",
        )


def shown(node: exp.Expr) -> str:
    text = node.sql(SparkView)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _name(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts)


def _if_it_is_right(compared: _Compared) -> str:
    """What goes before all that is found in the query."""
    return f"If it is right as it is: `inputs: {{{_name(compared.table)}: {{time: {compared.column}}}}}`."


def _key(origin: Origin) -> tuple[int, str]:
    return id(origin.table), origin.column.lower()


def _after(origin: Origin, compared: _Compared) -> Path:
    """The way of the rows from where they are compared: what comes before is there for every window alike."""
    queries = [each.query for each in (*compared.start, *compared.end)]
    at = max((at for at, step in enumerate(origin.path) if step.scope in queries), default=len(origin.path))
    return origin.path[: at + 1]


def _filtered_by(comparison: exp.Expr) -> str | None:
    """`""` if no row gets past the comparison, the joined source's name if only its rows do not, None if rows do."""
    node = comparison.parent
    while isinstance(node, exp.And | exp.Paren):
        node = node.parent
    if isinstance(node, exp.Where):
        return ""
    if not isinstance(node, exp.Join):
        return None
    side = str(node.args.get("side") or "").upper()
    kind = str(node.args.get("kind") or "").upper()
    if kind in ("SEMI", "ANTI") or side == "LEFT":
        return str(node.alias_or_name)
    return None if side else ""

"""Queries by chance, each in two dialects: as a client of Postgres writes it, and as Spark has it.

What the two mean differently on purpose (a division of decimals, the rounding and the text of floats) is left out.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Kinds of values. Of those in `RAW` nothing is computed: they are only read, and asked whether they are NULL.
INT, DECIMAL, DOUBLE, BOOL, TEXT = "int", "decimal", "double", "bool", "text"
DATE, TS, NTZ, LIST = "date", "ts", "ntz", "list"
EDGE = "edge"  # at the ends of their types: grouped, ordered, the least and the greatest of them
RAW = "raw"
_ORDERED = (INT, DECIMAL, DOUBLE, TEXT, DATE, TS, NTZ)

Columns = Mapping[str, str]  # the kinds of a table's columns, by their names


@dataclass(frozen=True)
class Piece:
    """A part of a query, and what kind of value it has."""

    kind: str
    ours: str
    spark: str


@dataclass(frozen=True)
class Query:
    ours: str
    spark: str
    ordered: bool = False  # whether the order of its rows is that of the query


@dataclass(frozen=True)
class Rule:
    """`{}` in it are pieces of these kinds, in this order."""

    ours: str
    kinds: tuple[str, ...]
    in_spark: str | None = None

    def made(self, kind: str, parts: Sequence[Piece]) -> Piece:
        spark = self.in_spark or self.ours
        return Piece(
            kind, self.ours.format(*(each.ours for each in parts)), spark.format(*(each.spark for each in parts))
        )


def _rule(ours: str, *kinds: str, spark: str | None = None) -> Rule:
    return Rule(ours, kinds, spark)


def _for_each(kind: str) -> list[Rule]:
    return [
        _rule("coalesce({}, {})", kind, kind),
        _rule("nullif({}, {})", kind, kind),
        _rule("CASE WHEN {} THEN {} ELSE {} END", BOOL, kind, kind),
        _rule("CASE WHEN {} THEN {} END", BOOL, kind),
    ]


def _largest(kind: str) -> list[Rule]:
    return [_rule("greatest({}, {})", kind, kind), _rule("least({}, {})", kind, kind)]


_PARTS = ("year", "month", "day", "quarter", "doy", "week")
_RULES: dict[str, list[Rule]] = {
    INT: [
        *_for_each(INT),
        *_largest(INT),
        _rule("({} + {})", INT, INT),
        _rule("({} - {})", INT, INT),
        _rule("({} * 3)", INT),
        _rule("({} % 7)", INT),
        _rule("({} / 4)", INT, spark="({} div 4)"),
        _rule("abs({})", INT),
        _rule("(- {})", INT),
        _rule("length({})", TEXT),
        _rule("position('a' in {})", TEXT),
        _rule("cardinality({})", LIST),
        _rule("({})[2]", LIST, spark="get({}, 1)"),
        _rule("({} - {})", DATE, DATE, spark="datediff({}, {})"),
        _rule("CAST({} AS int)", BOOL),
        *(_rule(f"CAST(extract({part} FROM {{}}) AS int)", DATE) for part in _PARTS),
        *(_rule(f"CAST(extract({part} FROM {{}}) AS int)", TS) for part in ("hour", "minute", "month")),
        *(_rule(f"CAST(extract({part} FROM {{}}) AS int)", NTZ) for part in ("hour", "day", "year")),
    ],
    DECIMAL: [
        *_for_each(DECIMAL),
        *_largest(DECIMAL),
        _rule("({} + {})", DECIMAL, DECIMAL),
        _rule("({} - {})", DECIMAL, DECIMAL),
        _rule("({} * 3)", DECIMAL),
        _rule("({} + 1.25)", DECIMAL),
        _rule("abs({})", DECIMAL),
        _rule("round({}, 1)", DECIMAL),
        _rule("CAST({} AS decimal(12, 3))", INT),
    ],
    DOUBLE: [
        *_for_each(DOUBLE),
        *_largest(DOUBLE),
        _rule("({} + {})", DOUBLE, DOUBLE),
        _rule("({} - {})", DOUBLE, DOUBLE),
        _rule("({} * 0.5)", DOUBLE),
        _rule("abs({})", DOUBLE),
        _rule("CAST({} AS double precision)", INT, spark="CAST({} AS double)"),
    ],
    BOOL: [
        *_for_each(BOOL),
        *(_rule(f"({{}} {sign} {{}})", kind, kind) for kind in _ORDERED for sign in ("=", "<>", "<", ">=")),
        *(_rule("({} BETWEEN {} AND {})", kind, kind, kind) for kind in _ORDERED),
        *(_rule("({} IN ({}, {}))", kind, kind, kind) for kind in (INT, TEXT, DATE)),
        *(_rule("({} IS NULL)", kind) for kind in (*_ORDERED, BOOL, LIST, EDGE, RAW)),
        *(_rule("({} IS NOT NULL)", kind) for kind in (INT, TEXT, RAW)),
        *(_rule("({} IS DISTINCT FROM {})", kind, kind, spark="(NOT ({} <=> {}))") for kind in (INT, TEXT, DATE)),
        _rule("({} AND {})", BOOL, BOOL),
        _rule("({} OR {})", BOOL, BOOL),
        _rule("(NOT {})", BOOL),
        _rule("({} IS TRUE)", BOOL),
        _rule("({} LIKE 'a%')", TEXT),
        _rule("({} NOT LIKE '%b_c%')", TEXT),
        _rule("({} ILIKE 'A%')", TEXT),
        # In an empty array there is not even NULL, but Spark does not know.
        _rule(
            "({} = ANY({}))",
            INT,
            LIST,
            spark="(CASE WHEN size({1}) = 0 THEN FALSE ELSE array_contains({1}, {0}) END)",
        ),
    ],
    TEXT: [
        *_for_each(TEXT),
        *_largest(TEXT),
        _rule("({} || {})", TEXT, TEXT),
        _rule("lower({})", TEXT),
        _rule("upper({})", TEXT),
        _rule("trim({})", TEXT),
        _rule("substring({}, 2, 3)", TEXT),
        _rule("substring({} FROM 2 FOR 2)", TEXT),
        _rule("left({}, 2)", TEXT),
        _rule("right({}, 3)", TEXT),
        _rule("replace({}, 'a', 'xy')", TEXT),
        _rule("lpad({}, 6, '*')", TEXT),
        _rule("rpad({}, 4, '-')", TEXT),
        _rule("reverse({})", TEXT),
        _rule("repeat({}, 2)", TEXT),
        _rule("split_part({}, ',', 2)", TEXT),
        _rule("translate({}, 'abc', 'x')", TEXT),
        _rule("md5({})", TEXT),
        _rule("concat_ws('-', {}, {})", TEXT, TEXT),
        *(_rule("CAST({} AS text)", kind, spark="CAST({} AS string)") for kind in (INT, DECIMAL, DATE, BOOL)),
    ],
    DATE: [
        *_for_each(DATE),
        *_largest(DATE),
        _rule("({} + 3)", DATE, spark="date_add({}, 3)"),
        _rule("({} - 40)", DATE, spark="date_sub({}, 40)"),
        _rule("CAST({} AS date)", TS),
        _rule("CAST({} AS date)", NTZ),
    ],
    TS: [
        *_for_each(TS),
        *_largest(TS),
        *(_rule(f"date_trunc('{unit}', {{}})", TS) for unit in ("year", "month", "week", "day", "hour", "minute")),
        _rule("({} + interval '3 hours')", TS, spark="({} + interval 3 hours)"),
        _rule("({} - interval '1 day')", TS, spark="({} - interval 1 day)"),
        _rule("CAST({} AS timestamptz)", DATE, spark="CAST({} AS timestamp)"),
    ],
    NTZ: [
        *_for_each(NTZ),
        *_largest(NTZ),
        _rule("({} + interval '90 minutes')", NTZ, spark="({} + interval 90 minutes)"),
        _rule("CAST({} AS timestamp)", DATE, spark="CAST({} AS timestamp_ntz)"),
    ],
}  # fmt: skip
_LITERALS: dict[str, list[tuple[str, str]]] = {
    INT: [(each, each) for each in ("0", "1", "5", "(-7)", "12")],
    DECIMAL: [(each, each) for each in ("0.000", "1.500", "(-250.125)")],
    DOUBLE: [(f"CAST({each} AS double precision)", f"CAST({each} AS double)") for each in ("0.25", "(-3)", "100")],
    BOOL: [("TRUE", "TRUE"), ("FALSE", "FALSE")],
    TEXT: [(each, each) for each in ("'a'", "''", "'abc'", "'é'", "'it''s'")],
    DATE: [(f"date '{each}'", f"date '{each}'") for each in ("2020-02-29", "2019-01-01")],
    TS: [("timestamptz '2001-02-03 04:05:06.7+00'", "timestamp '2001-02-03 04:05:06.7Z'")],
    NTZ: [("timestamp '2001-02-03 04:05:06.7'", "timestamp_ntz '2001-02-03 04:05:06.7'")],
}
_AGGREGATES: dict[str, list[Rule]] = {
    INT: [
        _rule("count(*)"),
        _rule("count({})", TEXT),
        _rule("count(DISTINCT {})", INT),
        _rule("count(DISTINCT {})", TEXT),
        _rule("count(*) FILTER (WHERE {})", BOOL),
        _rule("sum({})", INT),
        _rule("sum(DISTINCT {})", INT),
        _rule("sum({}) FILTER (WHERE {})", INT, BOOL),
        _rule("min({})", INT),
        _rule("max({})", INT),
    ],
    DECIMAL: [_rule("sum({})", DECIMAL), _rule("min({})", DECIMAL), _rule("max({})", DECIMAL)],
    DOUBLE: [
        _rule("sum({})", DOUBLE),
        _rule("max({})", DOUBLE),
        _rule("avg(CAST({} AS double precision))", INT, spark="avg(CAST({} AS double))"),
    ],
    BOOL: [_rule("bool_and({})", BOOL), _rule("bool_or({})", BOOL)],
    TEXT: [_rule("min({})", TEXT), _rule("max({})", TEXT)],
    DATE: [_rule("min({})", DATE), _rule("max({})", DATE)],
    TS: [_rule("max({})", TS)],
    NTZ: [_rule("min({})", NTZ)],
    EDGE: [_rule("min({})", EDGE), _rule("max({})", EDGE)],
}
_WINDOWS: list[tuple[str, Rule]] = [
    (INT, _rule("row_number() OVER (PARTITION BY {} ORDER BY {{key}})", INT)),
    (INT, _rule("rank() OVER (ORDER BY {} NULLS LAST)", TEXT)),
    (INT, _rule("dense_rank() OVER (PARTITION BY {} ORDER BY {} DESC NULLS FIRST)", BOOL, DATE)),
    (INT, _rule("sum({}) OVER (PARTITION BY {})", INT, BOOL)),
    (INT, _rule("count({}) OVER (ORDER BY {{key}} ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)", TEXT)),
    (INT, _rule("lag({}) OVER (ORDER BY {{key}})", INT)),
    (TEXT, _rule("lead({}, 2) OVER (PARTITION BY {} ORDER BY {{key}})", TEXT, INT)),
    (TEXT, _rule("first_value({}) OVER (PARTITION BY {} ORDER BY {{key}})", TEXT, BOOL)),
    (DECIMAL, _rule("sum({}) OVER (ORDER BY {{key}})", DECIMAL)),
    (INT, _rule("ntile(4) OVER (ORDER BY {{key}})")),
]


class Generator:
    """`tables`: their columns, of which `id` is unique in each."""

    def __init__(self, seed: int, ref: str, tables: Mapping[str, Columns]) -> None:
        self._dice = random.Random(seed)
        self._ref = ref
        self._tables = tables

    def query(self) -> Query:
        shapes = (self._plain, self._grouped, self._windowed, self._first, self._set, self._with, self._unnested)
        return self._dice.choices(shapes, (5, 6, 3, 3, 3, 3, 1))[0]()

    # Expressions

    def _expression(self, kind: str, scope: Sequence[Piece], depth: int) -> Piece:
        columns = [each for each in scope if each.kind == kind]
        rules = [rule for rule in _RULES.get(kind, []) if depth and all(self._has(need, scope) for need in rule.kinds)]
        if rules and (self._dice.random() < 0.7 or not columns):
            rule = self._dice.choice(rules)
            return rule.made(kind, [self._expression(each, scope, depth - 1) for each in rule.kinds])
        literals = _LITERALS.get(kind, [])
        if literals and (not columns or self._dice.random() < 0.15):
            return Piece(kind, *self._dice.choice(literals))
        return self._dice.choice(columns)

    def _has(self, kind: str, scope: Sequence[Piece]) -> bool:
        """Whether it can be made of columns: of literals alone, little can be learned."""
        return kind == BOOL or any(each.kind == kind for each in scope)

    def _kind(self, kinds: Sequence[str], scope: Sequence[Piece]) -> str:
        return self._dice.choice([kind for kind in kinds if self._has(kind, scope)])

    def _condition(self, scope: Sequence[Piece]) -> Piece:
        return self._expression(BOOL, scope, 3)

    def _item(self, scope: Sequence[Piece], depth: int = 3) -> Piece:
        raw = [each for each in scope if each.kind in (EDGE, RAW, LIST)]
        if raw and self._dice.random() < 0.2:
            return self._dice.choice(raw)
        return self._expression(self._kind(list(_RULES), scope), scope, depth)

    def _items(self, scope: Sequence[Piece], most: int = 4) -> list[Piece]:
        return [self._item(scope) for _ in range(self._dice.randint(1, most))]

    # Where rows come from

    def _table(self, alias: str) -> tuple[Piece, list[Piece]]:
        return self._named(self._dice.choice(list(self._tables)), alias)

    def _named(self, table: str, alias: str) -> tuple[Piece, list[Piece]]:
        source = Piece("", f"{table} {alias}", f"{spark_name(self._ref, table)} {alias}")
        return source, [_column(kind, alias, column) for column, kind in self._tables[table].items()]

    def _source(self) -> tuple[Piece, list[Piece]]:
        source, scope = self._table("t")
        if self._dice.random() < 0.65:
            return source, scope
        other, others = self._table("u")
        how = self._dice.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        on = Piece(BOOL, "t.id = u.id", "t.id = u.id")
        if how != "FULL JOIN" and self._dice.random() < 0.4:
            on = _rule("{} AND {}", BOOL, BOOL).made(BOOL, [on, self._condition([*scope, *others])])
        joined = _rule(f"{{}} {how} {{}} ON {{}}").made("", [source, other, on])
        return joined, [*scope, *others]

    def _filtered(self, source: Piece, scope: Sequence[Piece]) -> Piece:
        chance = self._dice.random()
        if chance < 0.35:
            return source
        condition = self._condition(scope) if chance < 0.8 else self._subquery(scope)
        return _rule("{} WHERE {}").made("", [source, condition])

    def _subquery(self, scope: Sequence[Piece]) -> Piece:
        source, inner = self._table("s")
        outer = self._expression(INT, [each for each in scope if each.kind == INT], 1)
        condition = self._condition(inner)
        # Spark fails of itself where it finds out that such a condition is never true.
        shape = self._dice.choice([
            "EXISTS (SELECT 1 FROM {1} WHERE s.id = t.id AND {2} = (s.id > 0))",
            "NOT EXISTS (SELECT 1 FROM {1} WHERE s.id = t.id AND {2} = (s.id > 0))",
            "{0} IN (SELECT {3} FROM {1} WHERE {2})",
            "{0} NOT IN (SELECT {3} FROM {1} WHERE {2})",
            "{0} > (SELECT min({3}) FROM {1} WHERE {2})",
            "{0} < (SELECT count(*) FROM {1} WHERE s.id = t.id)",
        ])  # fmt: skip
        return _rule(shape).made(BOOL, [outer, source, condition, self._expression(INT, inner, 1)])

    # Shapes

    def _plain(self) -> Query:
        source, scope = self._source()
        distinct = self._dice.random() < 0.2
        items = [self._expression(self._kind(_ORDERED, scope), scope, 2)] if distinct else self._items(scope)
        return _select(items, self._filtered(source, scope), "DISTINCT " if distinct else "")

    def _grouped(self) -> Query:
        source, scope = self._source()
        columns = [each for each in scope if each.kind in (INT, TEXT, DATE, BOOL, EDGE)]
        several = len(columns) > 1 and self._dice.random() < 0.25
        count = self._dice.randint(0, 2)
        if several:
            keys = self._dice.sample(columns, 2)
            by = self._dice.choice(
                ["ROLLUP ({}, {})", "CUBE ({}, {})", "GROUPING SETS (({}, {}), (), ({}))", "GROUPING SETS (({}), ({}))"]
            )
            group = _rule(f"{{}} GROUP BY {by}")
        else:
            keys = [
                self._expression(self._kind((INT, TEXT, DATE, BOOL, DECIMAL), scope), scope, 1) for _ in range(count)
            ]
            group = _rule("{} GROUP BY " + ", ".join(str(at + 1) for at in range(count)) if count else "{}")
        aggregates = [self._aggregate(scope) for _ in range(self._dice.randint(1, 3))]
        rest = group.made("", [self._filtered(source, scope), *keys, *keys[:1]])
        if several or (keys and self._dice.random() < 0.3):
            # Of no rows at all, Spark has no total.
            having = self._dice.choice(["count(*) > 1", "min({}) IS NOT NULL", "count(*) > 0"])
            rest = _rule(f"{{}} HAVING {having}").made("", [rest, self._expression(INT, scope, 1)])
        return _select([*keys, *aggregates], rest)

    def _aggregate(self, scope: Sequence[Piece]) -> Piece:
        kind = self._kind(list(_AGGREGATES), scope)
        rule = self._dice.choice(_AGGREGATES[kind])
        return rule.made(kind, [self._expression(each, scope, 2) for each in rule.kinds])

    def _windowed(self) -> Query:
        source, scope = self._table("t")
        kind, rule = self._dice.choice(_WINDOWS)
        made = rule.made(kind, [self._expression(each, scope, 1) for each in rule.kinds])
        window = Piece(kind, made.ours.replace("{key}", "t.id"), made.spark.replace("{key}", "t.id"))
        return _select([*self._items(scope, 2), window], self._filtered(source, scope))

    def _first(self) -> Query:
        """The first rows in an order of all columns: equal rows are equal whichever comes first."""
        source, scope = self._source()
        items = [self._expression(self._kind(_ORDERED, scope), scope, 2) for _ in range(self._dice.randint(1, 3))]
        items += [each for each in scope if each.kind == EDGE][:1]
        orders = [
            f"{at + 1} {self._dice.choice(['ASC', 'DESC'])} NULLS {self._dice.choice(['FIRST', 'LAST'])}"
            for at in range(len(items))
        ]
        limit = f" ORDER BY {', '.join(orders)} LIMIT {self._dice.randint(1, 30)}"
        limit += f" OFFSET {self._dice.randint(1, 9)}" if self._dice.random() < 0.4 else ""
        found = _select(items, self._filtered(source, scope))
        return Query(found.ours + limit, found.spark + limit, ordered=True)

    def _set(self) -> Query:
        kinds = [self._dice.choice(_ORDERED) for _ in range(self._dice.randint(1, 3))]
        sides = []
        for _ in range(2):
            source, scope = self._table("t")
            items = [self._expression(kind, scope, 1) for kind in kinds]
            sides.append(_select(items, self._filtered(source, scope)))
        how = self._dice.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT"])
        return Query(f"{sides[0].ours} {how} {sides[1].ours}", f"{sides[0].spark} {how} {sides[1].spark}")

    def _with(self) -> Query:
        source, scope = self._source()
        items = [self._expression(kind, scope, 2) for kind in (INT, TEXT, DECIMAL, DATE)]
        inner = _select(items, self._filtered(source, scope))
        columns = [Piece(each.kind, f"w.c{at}", f"w.c{at}") for at, each in enumerate(items)]
        key = self._expression(self._kind((INT, TEXT, DATE), columns), columns, 1)
        outer = _select([key, self._aggregate(columns)], Piece("", "w GROUP BY 1", "w GROUP BY 1"))
        return Query(f"WITH w AS ({inner.ours}) {outer.ours}", f"WITH w AS ({inner.spark}) {outer.spark}")

    def _unnested(self) -> Query:
        with_lists = [name for name, columns in self._tables.items() if LIST in columns.values()]
        source, scope = self._named(self._dice.choice(with_lists), "t")
        lists = [each for each in scope if each.kind == LIST]
        item = _rule("unnest({})", LIST, spark="explode({})").made(INT, [self._dice.choice(lists)])
        # A subquery beside explode() is more than Spark's optimizer can take.
        filtered = _rule("{} WHERE {}").made("", [source, self._condition(scope)])
        return _select([self._expression(INT, scope, 1), item], filtered)


def spark_name(ref: str, table: str) -> str:
    """Of the view by which Spark knows a table at a ref."""
    return f"{ref}_{table.partition('.')[2]}"


def _column(kind: str, alias: str, name: str) -> Piece:
    return Piece(kind, f'{alias}."{name}"', f"{alias}.`{name}`")


def _select(items: Sequence[Piece], source: Piece, distinct: str = "") -> Query:
    ours = ", ".join(f"{each.ours} AS c{at}" for at, each in enumerate(items))
    spark = ", ".join(f"{each.spark} AS c{at}" for at, each in enumerate(items))
    return Query(f"SELECT {distinct}{ours} FROM {source.ours}", f"SELECT {distinct}{spark} FROM {source.spark}")

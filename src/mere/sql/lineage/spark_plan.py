"""The columns that a DataFrame is made of, from the text of its analysed plan.

Spark tells plans to people only, in `EXPLAIN EXTENDED`, but in there every column carries an id that is its own:
`Project [city#10, (amount#9 * 2) AS double#16]`. Whatever is not understood is an error, and then nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from mere.names import TableName
from mere.sql.lineage.derivation import ANY, ColumnName

_VERSION = 1
_START, _END = "== Analyzed Logical Plan ==\n", "\n== Optimized Logical Plan =="
_ID = re.compile(r"#(\d+)L?\b")
_NAMED = re.compile(r"(.*)#(\d+)L?", re.DOTALL)
# What has an id and is no column: variables of lambdas, and queries inside of expressions, with the columns that they
# take from outside: `exists#89 [city#92]`.
_OTHERS = re.compile(r"lambda [^\s#]+#\d+L?|\b(?:[a-z]+-)?(?:subquery|exists|list)#\d+(?= \[)")
_SUBQUERY = re.compile(r"(?:subquery|exists|list)#\d+ \[")
_STEP = 3  # by so much a line stands further in than the one above it

_SAME = frozenset({"SubqueryAlias", "View", "GlobalLimit", "LocalLimit", "Offset", "Sample", "ResolvedHint", "Sort"})
_SAME_TOO = ("Repartition", "RebalancePartitions", "UnresolvedHint", "CTERelationDef", "WithCTE")
_CHOOSING = frozenset({"Filter", "Sort", "Deduplicate"})
_ROWS = frozenset({"LogicalRDD", "LocalRelation", "ExternalRDD"})
_ONE_SIDED = re.compile(r"Join (LeftSemi|LeftAnti|ExistenceJoin)")


@dataclass(frozen=True)
class PlanLineage:
    """Of a PySpark model, as it was when it was built."""

    columns: Mapping[str, frozenset[ColumnName]]
    rows: frozenset[ColumnName]  # what decides which rows there are


@dataclass(frozen=True)
class Kept:
    """What is kept in the table. `code` stands for the function: what another one did says nothing about this one."""

    code: str
    lineage: PlanLineage | None = None  # None: it could not be known

    def to_json(self) -> str:
        raw: dict[str, Any] = {"version": _VERSION, "code": self.code}
        if self.lineage is not None:
            raw["columns"] = {name: _by_table(origins) for name, origins in self.lineage.columns.items()}
            raw["rows"] = _by_table(self.lineage.rows)
        return orjson.dumps(raw).decode()

    @classmethod
    def from_json(cls, text: str) -> Kept | None:
        """None if it is not one that this version of mere can read."""
        try:
            raw = orjson.loads(text)
            if raw["version"] != _VERSION:
                return None
            if "columns" not in raw:
                return cls(raw["code"])
            columns = {name: frozenset(_of_tables(origins)) for name, origins in raw["columns"].items()}
            return cls(raw["code"], PlanLineage(columns, frozenset(_of_tables(raw["rows"]))))
        except (ValueError, LookupError, TypeError, AttributeError):
            return None


def _by_table(origins: Iterable[ColumnName]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in sorted(origins, key=str):
        found.setdefault(str(each.table), []).extend([each.column] if each.column else [])
    return found


def _of_tables(raw: Mapping[str, Any]) -> Iterator[ColumnName]:
    for table, columns in raw.items():
        yield from (ColumnName(TableName.parse(table), str(column)) for column in columns)


def lineage_of(text: str, columns: Sequence[str], inputs: Collection[TableName]) -> PlanLineage | None:
    """`text`: what EXPLAIN EXTENDED tells of a SELECT * over the frame. None if it cannot be known.

    An input that does not appear in the plan was read in some other way, of which nothing is known.
    """
    try:
        plan = _Plan(_tree(text[text.index(_START) + len(_START) : text.index(_END)]), inputs)
        outputs = [plan.origins(each) for each in plan.outputs]
        rows = frozenset().union(*(plan.origins(each) for each in plan.conditions))
    except (ValueError, LookupError, RecursionError):
        return None
    if len(outputs) != len(columns) or not plan.read >= set(inputs):
        return None
    return PlanLineage(dict(zip(columns, outputs, strict=True)), rows)


@dataclass(frozen=True)
class _Node:
    text: str
    children: list[_Node] = field(default_factory=list)
    subqueries: list[_Node] = field(default_factory=list)

    @property
    def operator(self) -> str:
        return re.split(r"[\s\[(]", self.text, maxsplit=1)[0]


def _tree(text: str) -> _Node:
    """By how far the lines stand in. The first one names the columns and is no part of the plan."""
    above: list[tuple[int, _Node]] = []
    for line in filter(None, text.split("\n")[1:]):
        depth = len(line) - len(line.lstrip(" :+-"))
        node = _Node(line[depth:])
        while above and above[-1][0] >= depth:
            above.pop()
        if above:
            at, parent = above[-1]
            (parent.children if depth == at + _STEP else parent.subqueries).append(node)
        elif depth:
            raise ValueError(line)
        above.append((depth, node))
    return above[0][1]


class _Plan:
    def __init__(self, root: _Node, inputs: Collection[TableName]) -> None:
        self._inputs = {str(each).lower(): each for each in inputs}
        self._made: dict[int, set[int]] = {}  # the ids of which a column is made
        self._leaves: dict[int, frozenset[ColumnName]] = {}
        self._calls: set[int] = set()
        self._ctes: dict[str, list[int]] = {}
        self.read: set[TableName] = set()
        self.conditions: set[int] = set()
        self.outputs = self._walk(root)

    def origins(self, wanted: int) -> frozenset[ColumnName]:
        seen, left = {wanted}, [wanted]
        while left:
            each = left.pop()
            if not (each in self._leaves or each in self._made or each in self._calls):
                raise ValueError(f"#{each} comes from nowhere")
            left += self._made.get(each, set()) - seen
            seen.update(left)
        return frozenset().union(*(self._leaves.get(each, frozenset()) for each in seen))

    def _walk(self, node: _Node) -> list[int]:
        """The ids of the columns that an operator gives."""
        inner = [each for query in node.subqueries for each in self._walk(query)]
        if (table := self._table(node)) is not None:
            return self._leaf(node, table)
        given = [self._walk(child) for child in node.children]
        operator = node.operator
        if operator in _CHOOSING:
            self.conditions.update(self._ids(node.text), inner)
        if operator in _SAME or operator in _CHOOSING or operator.startswith(_SAME_TOO):
            if operator == "CTERelationDef":
                self._ctes[node.text.split()[1].rstrip(",")] = given[-1]
            return given[-1]
        match operator:
            case "Project":
                return self._defined(_lists(node.text)[-1], inner)
            case "Aggregate":
                *keys, items = _lists(node.text)
                self.conditions.update(each for key in keys for each in self._ids(key))
                return self._defined(items, inner)
            case "Window":
                return [*given[0], *self._defined(_lists(node.text)[0], inner)]
            case "Join":
                self.conditions.update(self._ids(node.text), inner)
                return given[0] if _ONE_SIDED.match(node.text) else [*given[0], *given[1]]
            case "Union":
                return self._united(given)
            case "Except" | "Intersect" | "Distinct":
                self.conditions.update(each for side in given for each in side)
                return given[0]
            case "CTERelationRef":
                return self._united([self._ids(_lists(node.text)[0]), self._ctes[node.text.split()[1].rstrip(",")]])
            case "Expand":
                return self._expanded(_lists(node.text))
        return self._by(node, [*inner, *(each for side in given for each in side)], given)

    def _table(self, node: _Node) -> TableName | None:
        """An input, be it a table or a view, or another table that the function reads by itself."""
        if node.operator == "RelationV2":
            parts = node.text[node.text.rindex("] ") + 2 :].split()[0].replace("`", "").split(".")
            return TableName.of(parts[1:])
        if node.operator != "SubqueryAlias":
            return None
        parts = node.text.split(maxsplit=1)[1].replace("`", "").lower().split(".")
        return next((found for at in range(2) if (found := self._inputs.get(".".join(parts[at:])))), None)

    def _leaf(self, node: _Node, table: TableName) -> list[int]:
        while node.operator in ("SubqueryAlias", "View"):
            (node,) = node.children
        if node.operator not in ("RelationV2", "Project"):
            raise ValueError(node.text)
        ids = []
        for item in _items(_lists(node.text)[0]):
            name, number = _named(item)
            ids.append(number)
            self._leaves[number] = frozenset({ColumnName(table, name.rpartition(" AS ")[2])})
        self.read.add(self._inputs.get(str(table).lower(), table))
        return ids

    def _defined(self, items: str, inner: Iterable[int]) -> list[int]:
        """Of `city#10, (amount#9 * 2) AS double#16`: the second is made of #9."""
        ids = []
        for item in _items(items):
            text, number = _named(item)
            ids.append(number)
            if " AS " in item and number not in self._made and number not in self._leaves:
                self._made[number] = {*self._ids(text), *(inner if _SUBQUERY.search(text) else ())}
        return ids

    def _united(self, sides: list[list[int]]) -> list[int]:
        first, *others = sides
        for other in others:
            for one, another in zip(first, other, strict=True):
                if one != another:
                    # From here on the id of the first stands for both.
                    self._made.setdefault(one, set()).add(another)
        return first

    def _expanded(self, lists: list[str]) -> list[int]:
        rows, ids = [_items(each) for each in _lists(lists[0])], self._ids(lists[-1])
        for at, number in enumerate(ids):
            self._made.setdefault(number, set()).update(each for row in rows for each in self._ids(row[at]))
        return ids

    def _by(self, node: _Node, sources: list[int], given: list[list[int]]) -> list[int]:
        """A generator, a function of whole frames, rows from elsewhere, or an operator of which nothing is known."""
        lists = _lists(node.text)
        ids = self._ids(lists[-1]) if lists else []
        if node.operator in _ROWS:
            everything = frozenset(ColumnName(each, ANY) for each in self._inputs.values())
            self._leaves.update(dict.fromkeys(ids, everything))
            return ids
        if not given:
            raise ValueError(node.text)
        is_generator = node.operator == "Generate"
        used = self._ids(node.text[: node.text.rindex("[")]) if is_generator else sources
        self.conditions.update(used)
        for each in ids:
            self._made.setdefault(each, set()).update(used)
        return [*given[0], *ids] if is_generator else ids

    def _ids(self, text: str) -> list[int]:
        plain = _OTHERS.sub("", text)
        found = []
        for match in _ID.finditer(plain):
            found.append(int(match[1]))
            if plain[: match.start()].endswith(")"):
                self._calls.add(int(match[1]))  # of a function; what it is given stands there too
        return found


def _named(item: str) -> tuple[str, int]:
    match = _NAMED.fullmatch(item)
    if match is None:
        raise ValueError(item)
    return match[1], int(match[2])


def _lists(text: str) -> list[str]:
    """What stands in the outermost square brackets."""
    found, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        if letter in "[(":
            if not depth and letter == "[":
                start = at + 1
            depth += 1
        elif letter in "])":
            depth -= 1
            if not depth and letter == "]":
                found.append(text[start:at])
            if depth < 0:
                raise ValueError(text)
    if depth:
        raise ValueError(text)
    return found


def _items(text: str) -> list[str]:
    found, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and not depth:
            found.append(text[start:at].strip())
            start = at + 1
    return [*found, text[start:].strip()] if text.strip() else []

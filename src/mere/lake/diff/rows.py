"""The rows that differ between two states of a table, found by DuckDB.

With a key, rows are matched by it and compared column by column; without one, they are counted, equal ones together.
NULL equals NULL and NaN equals NaN. What both states have in common is not read where their manifests tell (`touched`).
Nothing but counts and a few samples comes out of DuckDB, which spills to disk what does not fit into its memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mere.errors import QueryError, TableNotFound, UsageError
from mere.lake.diff.alignment import Pair, pairs
from mere.lake.diff.lines import rows_lines
from mere.lake.diff.net_rows import net_rows
from mere.lake.iceberg.metadata import Metadata
from mere.lake.iceberg.schema import key_of
from mere.lake.iceberg.touched import touched
from mere.lake.log.commits import Key, Kind
from mere.lake.query import Limits, connect, explained, scans
from mere.lake.query.bindings import Bindings, folders, full_name
from mere.lake.query.duckdb import confine
from mere.lake.query.tables import TableSet
from mere.lake.query.types import no_rows
from mere.lake.storage import room
from mere.names import TableName, near
from mere.sql.spelling.standard import quoted
from mere.text import notebook
from mere.text.notebook import Column
from mere.text.values import cell, plain
from mere.text.words import counted

if TYPE_CHECKING:
    from mere.lake.diff.diff import Diff

Row = dict[str, Any]
_ELSEWHERE = (
    "Compare others: name them with --table. Whoever may read that file compares its rows on the server's machine, with"
    " `mere diff`."
)


@dataclass(frozen=True)
class Options:
    key: Sequence[str] | None = None  # None: the table's own, if it has one; none at all: whole rows are compared
    samples: int = 10
    limits: Limits | None = None
    within: Sequence[str] | None = None  # the folders of the lake: beside the tables' own, no others are read


class _NotUnique(QueryError):
    """A key that does not tell the rows apart."""


@dataclass(frozen=True)
class ChangedRow:
    key: Row
    old: Row  # the columns that differ
    new: Row


@dataclass(frozen=True)
class RowDiff:
    table: TableName
    key: tuple[str, ...]  # empty: rows were compared as a whole
    read: str  # which files were read, in words
    added: int = 0
    removed: int = 0
    changed: int = 0
    by_column: Mapping[str, int] = field(default_factory=dict)  # in how many of the changed rows it differs
    only_old: tuple[str, ...] = ()  # columns that were not compared: the other side has none like it
    only_new: tuple[str, ...] = ()
    added_rows: tuple[Row, ...] = ()  # samples, by key
    removed_rows: tuple[Row, ...] = ()
    changed_rows: tuple[ChangedRow, ...] = ()
    note: str = ""  # why rows were not matched by the table's own key

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def to_dict(self) -> dict[str, Any]:
        """With values that JSON has: exact where JSON can be, else as text."""
        data: dict[str, Any] = plain(asdict(self))
        return data | {"table": str(self.table)}

    def _repr_html_(self) -> str:
        parts = [notebook.lines(rows_lines(self))]
        for name, rows in (("added", self.added_rows), ("removed", self.removed_rows)):
            if rows:
                parts += [notebook.lines([f"{name}:"]), _shown([[*row.items()] for row in rows])]
        if self.changed_rows:
            told = [
                [*each.key.items(), *((name, _step(each, name)) for name in self.by_column)]
                for each in self.changed_rows
            ]
            parts += [notebook.lines(["changed:"]), _shown(told)]
        return notebook.shown(f"rows of {self.table}", *parts)


def _shown(rows: Sequence[Sequence[tuple[str, Any]]]) -> str:
    columns = [Column(name) for name, _ in rows[0]]
    return notebook.table(columns, [[cell(value) for _, value in row] for row in rows])


def _step(changed: ChangedRow, name: str) -> str:
    return f"{cell(changed.old[name])} → {cell(changed.new[name])}" if name in changed.old else ""


def row_diffs(diff: Diff, options: Options, tables: Collection[str] = ()) -> Iterator[RowDiff]:
    for old, new in _targets(diff, tables):
        yield compare(diff.before, diff.after, old, new, options)


def _targets(diff: Diff, tables: Collection[str]) -> list[tuple[TableName, TableName]]:
    """The old and new names of the tables to compare."""
    found = {each.table: each for each in diff.tables}
    if not tables:
        owned = {each.table for each in diff.companions}
        told = [each for each in found.values() if each.table not in owned]
        both = [each for each in told if each.old and each.new and not each.unreadable]
        return [(each.old_name, each.table) for each in both]
    targets = []
    for name in dict.fromkeys(map(TableName.parse, tables)):
        old = found[name].old_name if name in found else name
        missing = [side for side, table in ((diff.before, old), (diff.after, name)) if table not in side]
        if len(missing) == 2:
            diff.after.entry(name)  # says so
        if missing:
            raise TableNotFound(f"{name} is not on {missing[0].ref}, so there are no rows to compare it with.")
        targets.append((old, name))
    return targets


def compare(before: TableSet, after: TableSet, old: TableName, new: TableName, options: Options) -> RowDiff:
    """The rows that lead from one state of a table to another."""
    if before.entry(old) == after.entry(new) and before.entry(old).kind is Kind.TABLE:
        return RowDiff(new, tuple(options.key or ()), "nothing: it is the same table")
    sides = before.metadata(old), after.metadata(new)
    columns = _Columns.of(new, *sides, options)
    with room.scratch("mere-diff-") as folder:
        connection = connect(options.limits)
        try:
            sets = {_ref(before, "old"): before, _ref(after, "new"): after}
            bindings = Bindings(connection, sets, _ref(after, "new"), after.reader.storage)
            if options.within is not None:
                bindings.load_extensions()
                confine(connection, [*options.within, folder, *_folders((before, old), (after, new))])
            read = _bind(connection, bindings, (old, new), sides, Path(folder))
            names = full_name(_ref(before, "old"), old), full_name(_ref(after, "new"), new)
            search = _Search(connection, bindings, columns, names, options.samples)
            if not columns.key:
                return search.by_row(new, read)
            try:
                return search.by_key(new, read)
            except _NotUnique as error:
                if options.key is not None:
                    raise
                # Nobody asked for this key, and other tables are to be compared, too.
                return replace(search.by_row(new, read), note=error.message)
        except scans.OutOfReach as error:
            raise QueryError(f"The rows of {new} cannot be compared: {error.message}", remedy=_ELSEWHERE) from error
        finally:
            connection.close()


def _folders(*sides: tuple[TableSet, TableName]) -> Iterator[str]:
    """Those of the tables; where one is a view, of all that it could read."""
    for tables, name in sides:
        for key, entry in tables.entries.items() if tables.is_view(name) else [(Key.of(name), tables.entry(name))]:
            if entry.kind is Kind.TABLE:
                yield from folders(tables.metadata(key.table))


def _ref(tables: TableSet, side: str) -> str:
    """The refs of the two sides may be written alike."""
    return f"{tables.ref} ({side})"


def _bind(
    connection: Any,
    bindings: Bindings,
    names: tuple[TableName, TableName],
    sides: tuple[Metadata, Metadata],
    folder: Path,
) -> str:
    """Bind both sides, without what they have in common if possible; say which files are read."""
    first, second = bindings.refs
    storage = bindings.tables(first).reader.storage
    if any(bindings.tables(ref).is_view(name) for ref, name in zip((first, second), names, strict=True)):
        parts: Any = "a view is read whole"
    else:
        parts = touched(str(names[1]), *sides, storage, folder)
    if isinstance(parts, str):
        for ref, name in zip((first, second), names, strict=True):
            bindings.bind(ref, name)
        return f"all files: {parts}"
    bindings.load_extensions()
    for ref, name, metadata, part in zip((first, second), names, sides, parts, strict=True):
        item = f"({no_rows(metadata.schema)})"
        if part.location:
            item = scans.item(connection, str(name), part.location, part.kinds, storage)
        bindings.bind_item(ref, name, item)
    counts = [f"{part.count:,} of {side.files:,}" for part, side in zip(parts, sides, strict=True)]
    return f"touched files: {counts[0]} of the old, {counts[1]} of the new"


@dataclass(frozen=True)
class _Columns:
    compared: list[Pair]
    key: list[int]  # where in them it is
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]

    @classmethod
    def of(cls, table: TableName, old: Metadata, new: Metadata, options: Options) -> _Columns:
        by_id = old.uuid is not None and old.uuid == new.uuid and not new.is_view
        schemas = old.schema, new.schema
        compared = pairs(*schemas, by_id)
        if not compared:
            raise QueryError(f"The two states of {table} have no column in common.")
        names = [pair.name for pair in compared]
        if options.key is None:
            own = key_of(new)
            wanted = own if set(own).issubset(names) else ()
        else:
            wanted = tuple(options.key)
        for name in wanted:
            if name not in names:
                raise UsageError(
                    f"{table} has no column {name!r} on both sides to be a key.{near(name, names)}",
                    remedy="Name another with --key, and the tables that it is for with --table.",
                )
        olds = {pair.old_name for pair in compared}
        return cls(
            compared,
            [names.index(name) for name in dict.fromkeys(wanted)],
            tuple(each["name"] for each in schemas[0]["fields"] if each["name"] not in olds),
            tuple(each["name"] for each in schemas[1]["fields"] if each["name"] not in names),
        )

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(self.compared[at].name for at in self.key)

    @property
    def others(self) -> list[int]:
        return [at for at in range(len(self.compared)) if at not in self.key]


@dataclass(frozen=True)
class _Search:
    connection: Any
    bindings: Bindings
    columns: _Columns
    tables: tuple[str, str]  # old and new, as DuckDB knows them
    samples: int

    def _run(self, sql: str) -> list[tuple[Any, ...]]:
        with explained(self.bindings, sql):
            rows: list[tuple[Any, ...]] = self.connection.execute(sql).fetchall()
        return rows

    def _side(self, which: int) -> str:
        """One side with its columns named by position: their names may be anything, and differ between the sides."""
        names = [(pair.old_name, pair.name)[which] for pair in self.columns.compared]
        listed = ", ".join(f"{quoted(name)} AS c{at}" for at, name in enumerate(names))
        return f"SELECT true AS here, {listed} FROM {self.tables[which]}"

    def _compared(self, at: int) -> tuple[str, str]:
        pair = self.columns.compared[at]
        return pair.old(f"o.c{at}"), pair.new(f"n.c{at}")

    def by_key(self, table: TableName, read: str) -> RowDiff:
        columns = self.columns
        found = self._run(self._join())[0]
        added, removed, changed, new_keys, adds, removes, changes, olds, news, old_keys, counts = found
        # If the old keys are unique, a new row matches one old row or none; then so many match on both sides, unless
        # a new key stands twice, and matches twice or not at all.
        if [old_keys, news - added, new_keys] != [olds, olds - removed, added]:
            raise self._duplicates(table)
        named = {columns.compared[at].name: count for at, count in zip(columns.others, counts, strict=True) if count}
        return RowDiff(
            table,
            columns.key_names,
            read,
            added,
            removed,
            changed,
            named,
            columns.only_old,
            columns.only_new,
            tuple(self._row(each) for each in (adds or [])[: self.samples]),
            tuple(self._row(each) for each in (removes or [])[: self.samples]),
            tuple(self._changed(each) for each in (changes or [])[: self.samples]),
        )

    def _join(self) -> str:
        columns, samples = self.columns, max(self.samples, 1)
        matched = " AND ".join("{} IS NOT DISTINCT FROM {}".format(*self._compared(at)) for at in columns.key)
        flags = [
            f"o.here AND n.here AND {' IS DISTINCT FROM '.join(self._compared(at))} AS d{at}" for at in columns.others
        ]
        changed = " OR ".join(f"d{at}" for at in columns.others) or "false"
        differing = ", ".join(f"d{at}" for at in columns.others)
        counts = ", ".join(f"count(*) FILTER (d{at})" for at in columns.others)
        old, new = (f"row({', '.join(f'{side}.c{at}' for at in columns.key)})" for side in ("o", "n"))
        old_keys = ", ".join(self._compared(at)[0] for at in columns.key)
        # What is equal has to go before rows are made of columns, which is dear; and DuckDB would keep all of a
        # relation that is named twice, so the old keys are read by a name of their own.
        return f"""WITH o AS ({self._side(0)}), n AS ({self._side(1)}),
joined AS (SELECT {", ".join(["o", "n", f"{old} AS old_key", f"{new} AS new_key", *flags])}
  FROM o FULL JOIN n ON {matched})
SELECT count(*) FILTER (o.here IS NULL), count(*) FILTER (n.here IS NULL), count(*) FILTER ({changed}),
  count(DISTINCT new_key) FILTER (o.here IS NULL),
  arg_min(n, new_key, {samples}) FILTER (o.here IS NULL),
  arg_min(o, old_key, {samples}) FILTER (n.here IS NULL),
  arg_min({{'o': o, 'n': n, 'differs': [{differing}]}}, new_key, {samples}) FILTER ({changed}),
  (SELECT count(*) FROM {self.tables[0]}), (SELECT count(*) FROM {self.tables[1]}),
  (SELECT count(*) FROM (SELECT DISTINCT {old_keys} FROM ({self._side(0)}) o)), [{counts}]
FROM joined WHERE o.here IS NULL OR n.here IS NULL OR {changed}"""

    def by_row(self, table: TableName, read: str) -> RowDiff:
        """Equal rows are counted together: a row that stands twice on one side and once on the other differs once."""
        columns, samples = self.columns, max(self.samples, 1)
        places = range(len(columns.compared))
        compared = [", ".join(f"{self._compared(at)[which]} AS c{at}" for at in places) for which in (0, 1)]
        sides = [f"SELECT {listed} FROM {side}" for listed, side in zip(compared, "on", strict=True)]
        listed = ", ".join(f"c{at}" for at in places)
        row = "{" + ", ".join(f"'c{at}': c{at}" for at in places) + "}"
        sql = f"""WITH o AS ({self._side(0)}), n AS ({self._side(1)}),
differing AS ({net_rows(sides, len(places))})
SELECT coalesce(sum(net) FILTER (net > 0), 0), coalesce(-sum(net) FILTER (net < 0), 0),
  arg_min({row}, row({listed}), {samples}) FILTER (net > 0),
  arg_min({row}, row({listed}), {samples}) FILTER (net < 0)
FROM differing"""
        ((added, removed, adds, removes),) = self._run(sql)
        return RowDiff(
            table,
            (),
            read,
            int(added),
            int(removed),
            only_old=columns.only_old,
            only_new=columns.only_new,
            added_rows=tuple(self._row(each) for each in (adds or [])[: self.samples]),
            removed_rows=tuple(self._row(each) for each in (removes or [])[: self.samples]),
        )

    def _row(self, found: Row) -> Row:
        return {pair.name: found[f"c{at}"] for at, pair in enumerate(self.columns.compared)}

    def _changed(self, found: Row) -> ChangedRow:
        old, new = self._row(found["o"]), self._row(found["n"])
        differing = zip(self.columns.others, found["differs"], strict=True)
        names = [self.columns.compared[at].name for at, differs in differing if differs]
        key = {name: new[name] for name in self.columns.key_names}
        return ChangedRow(key, {name: old[name] for name in names}, {name: new[name] for name in names})

    def _duplicates(self, table: TableName) -> _NotUnique:
        shown = []
        keys = ", ".join(f"c{at}" for at in self.columns.key)
        for which, ref in enumerate(self.bindings.refs):
            sql = f"""SELECT {keys}, count(*) FROM ({self._side(which)})
GROUP BY {keys} HAVING count(*) > 1 ORDER BY ALL LIMIT 3"""
            for *values, count in self._run(sql):
                shown.append(f"  on {ref.rpartition(' (')[0]}: {', '.join(map(repr, values))}: {counted(count, 'row')}")
        names = ", ".join(self.columns.key_names)
        return _NotUnique(
            f"The rows of {table} cannot be matched by {names}, which is not unique:\n" + "\n".join(shown),
            remedy="Name a key that is with --key, or compare whole rows with --no-key.",
        )

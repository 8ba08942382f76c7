"""A ref of the lake as the planner sees it: read from metadata and manifests, without a JVM."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING

from mere.errors import LakeError
from mere.lake.lake import Lake
from mere.lake.query.tables import TableSet
from mere.names import TableName
from mere.pipeline.plan.steps import Delta, Load, Standing
from mere.pipeline.state.columns import Column, of_table
from mere.pipeline.state.key import key_property
from mere.pipeline.state.observations import Observation, glance, walk
from mere.pipeline.state.replaced import only_added
from mere.pipeline.state.state import PROPERTY, Point, Points, State, digest
from mere.pipeline.state.unfinished import is_untouched
from mere.project.model import Model
from mere.sources.ledger import ledger
from mere.sources.offered import Offered, Offers
from mere.sources.source import Loaded, Portion, Source
from mere.windows import NEVER, Grain, Span, Spans, instant

# What reads manifests is imported where something changed: most plans find nothing to do.
if TYPE_CHECKING:
    from mere.lake.diff.changes import Changes
    from mere.lake.iceberg.timeline import Timeline

_TICK = timedelta(microseconds=1)


@dataclass
class LakeFacts:
    """Reads one commit of a ref; what it found is kept, for a plan asks for the same again and again."""

    lake: Lake
    tables: TableSet
    now: datetime
    _points: dict[TableName, Points] = field(default_factory=dict)
    _timelines: dict[tuple[TableName, str | None], Timeline] = field(default_factory=dict)
    offers: Offers | None = None
    _states: dict[TableName, State | None] = field(default_factory=dict)
    _ledgers: dict[TableName, Mapping[str, Loaded]] = field(default_factory=dict)

    @property
    def ref(self) -> str:
        return self.tables.ref

    def standing(self, table: TableName) -> Standing | None:
        if table not in self.tables:
            return None
        metadata, state, view = self.tables.metadata(table), self.state(table), self.tables.is_view(table)
        untouched = state is None or is_untouched(metadata, state)
        return Standing(view, state, None if untouched else self._last_change(table))

    def state(self, table: TableName) -> State | None:
        if table not in self._states:
            text = self.tables.metadata(table).properties.get(PROPERTY)
            self._states[table] = State.from_json(text) if text else None
        return self._states[table]

    def _last_change(self, table: TableName) -> str:
        commit = next(iter(self.lake.log(self.ref, str(table))), None)
        return f"at commit {commit.short_id} by {commit.by}" if commit else ""

    def points(self, table: TableName) -> Points:
        if table not in self._points:
            self._points[table] = {}  # a view that reads itself reads nothing
            self._points[table] = self._read_points(table)
        return self._points[table]

    def _read_points(self, table: TableName) -> Points:
        if table not in self.tables:
            return {}
        metadata = self.tables.metadata(table)
        if not self.tables.is_view(table):
            return {str(table): Point(metadata.uuid or "", metadata.current_id, metadata.schema_id)}
        from mere.lake.iceberg.schema import view_sql

        state = self.state(table)
        sql = view_sql(metadata)[0]
        read = [TableName.parse(name) for name in state.inputs] if state else self._read_by(sql or "")
        leaves = {name: point for each in read for name, point in self.points(each).items()}
        return {str(table): Point(digest(sql or "")), **leaves}

    def times(self, table: TableName, column: str) -> Mapping[str, str]:
        if table not in self.tables or not self.tables.is_view(table):
            return {str(table): column}
        from mere.lake.iceberg.schema import view_sql
        from mere.project.files.query import copied_from  # and sqlglot

        sql = view_sql(self.tables.metadata(table))[0] or ""
        behind = copied_from(sql, column)
        return {name: time for each, of in behind.items() for name, time in self.times(each, of).items()}

    @staticmethod
    def _read_by(sql: str) -> list[TableName]:
        from mere.sql.rewrite import tables_of  # and sqlglot

        return tables_of(sql)

    def changes(self, table: str, since: Point, column: str | None, grain: Grain | None) -> Delta:
        found = self._changes(table, since, column, grain)
        spans = found.spans if column or not found else None
        timeless = column is not None and (found.nulls, found.nulls_removed) != (0, 0)
        return Delta(spans, found.why, found.keeps_all, timeless)

    def _changes(self, table: str, since: Point, column: str | None, grain: Grain | None) -> Changes:
        from mere.lake.diff import changes, contents
        from mere.lake.refs import history

        name = TableName.parse(table)
        timeline = self._timeline(name, column)
        lost = partial(history.lost_snapshot, self.lake.store, self.lake.reader, self.tables.commit, name)
        found = changes.changes(timeline, since.snapshot, grain, uuid=since.id, lost=lost)
        return contents.by_rows(found, timeline, since.snapshot, grain)

    def has_columns_of(self, table: str, old: Point, new: Point) -> bool:
        if old.id != new.id:
            return False
        before, now = self._columns_at(table, old, new)
        return old.schema == new.schema or (bool(before) and list(before.items()) == list(now.items()))

    def _columns_at(self, table: str, *points: Point) -> Iterator[dict[int, tuple[str, object]]]:
        """By field id, in order: names and types."""
        schemas = self.tables.metadata(table).schemas
        for point in points:
            fields = schemas.get(point.schema, {}).get("fields", [])
            yield {field["id"]: (field["name"], field["type"]) for field in fields}

    def columns_changed(self, table: str, old: Point, new: Point) -> str | None:
        before, now = self._columns_at(table, old, new)
        changed = [name for id_, (name, kind) in before.items() if now.get(id_) != (name, kind)]
        return f"column {', '.join(changed)} changed" if changed else None

    def still_has(self, table: str, point: Point) -> bool:
        # A view has no snapshots, nor had a table into which nobody had written.
        return point.snapshot is None or self.tables.metadata(table).snapshot(point.snapshot) is not None

    def new_rows(self, table: str, since: Point) -> bool | None:
        found = only_added(self.tables.metadata(table), since.snapshot)
        return None if found is None else bool(found)

    def gone_again(self, table: str, since: Point) -> bool:
        from mere.lake.diff import changes

        timeline = self._timeline(TableName.parse(table), None)
        way = timeline.metadata.since(since.snapshot) if since.snapshot is not None else None
        went = changes.taken_away(timeline, way) if way is not None else None
        return went is None or went.new

    def keyed(self, table: TableName, key: Mapping[str, str]) -> Mapping[str, Mapping[str, str]] | None:
        if table not in self.tables or not self.tables.is_view(table):
            return {str(table): key}
        from mere.lake.iceberg.schema import view_sql
        from mere.sql.keys import keys_of_view  # and sqlglot

        found: dict[str, Mapping[str, str]] = {}
        for each, behind in keys_of_view(view_sql(self.tables.metadata(table))[0] or "", key).items():
            leaves = self.keyed(each, behind) if behind.keys() == key.keys() else None
            if leaves is None or any(found.get(name, of) != of for name, of in leaves.items()):
                return None
            found |= leaves
        return found

    def columns(self, table: TableName) -> Sequence[Column]:

        return of_table(self.tables.metadata(table).schema) if table in self.tables else ()

    def has_key_of(self, model: Model) -> bool:
        metadata = self.tables.metadata(model.name)
        return all(metadata.properties.get(name) == value for name, value in key_property(model, metadata).items())

    def observations(
        self, tables: Sequence[TableName], since: Points, last: datetime | None
    ) -> tuple[Observation, ...]:
        names = [TableName.parse(name) for each in tables for name in self.points(each)]
        if len(names) == 1:
            return walk(self.tables.metadata(names[0]), since.get(str(names[0])), last)
        read = [self.tables.metadata(name) for name in names if not self.tables.is_view(name)]
        return (glance(read, last),) if read else ()

    def offered(self, model: Model, loaded: Mapping[str, Loaded]) -> Offered:
        assert isinstance(model.body, Source)
        assert self.offers is not None
        return self.offers.offered(model.name, model.body, model.file, loaded)

    def landed(self, model: Model, gone: Iterable[Loaded]) -> list[Portion]:
        assert isinstance(model.body, Source)
        assert self.offers is not None
        return self.offers.landed(model.name, model.body, gone)

    def loaded(self, table: TableName) -> Mapping[str, Loaded]:
        if table not in self._ledgers:
            self._ledgers[table] = ledger(self.lake, table, self.tables.commit.id) if table.loads in self.tables else {}
        return self._ledgers[table]

    def extent(self, table: TableName, column: str) -> Spans:
        if self.tables.is_view(table):
            return self._extent_of_view(table, column)
        from mere.lake.diff import changes

        return changes.extent(self._timeline(table, column))

    def timeless(self, table: TableName, column: str, since: Point | None = None) -> int | None:
        if self.tables.is_view(table):
            return None
        from mere.lake.diff import changes

        if since is None:
            return changes.timeless(self._timeline(table, column))
        return self._changes(str(table), since, column, None).nulls

    def rows_with_time(self, table: TableName, column: str, spans: Spans) -> int:
        """Of the data files that may have rows in these spans. Of a view nobody knows: all rows behind it."""
        if self.tables.is_view(table):
            return self.load(table, None, None).rows
        from mere.lake.diff import changes

        return changes.rows_with_time(self._timeline(table, column), spans)

    def _extent_of_view(self, table: TableName, column: str) -> Spans:
        with self.lake.sql(f'SELECT min("{column}"), max("{column}") FROM {table}', self.ref) as result:
            first, last = next(iter(result))
        if first is None:
            return NEVER
        # The end is without: one step of the column's type after the last.
        end = instant(last) + (_TICK if isinstance(last, datetime) else timedelta(days=1))
        return Spans((Span(instant(first), end),))

    def load(self, table: TableName, column: str | None, spans: Spans | None) -> Load:
        if table not in self.tables:
            return Load()
        if self.tables.is_view(table):
            leaves = (TableName.parse(name) for name in self.points(table) if name != str(table))
            return sum((self.load(each, None, None) for each in leaves if not self.tables.is_view(each)), Load())
        metadata = self.tables.metadata(table)
        if column is None or spans is None:
            return Load(metadata.rows, metadata.size)
        from mere.lake.diff import changes

        return Load(*changes.weight(self._timeline(table, column), spans))

    def _timeline(self, table: TableName, column: str | None) -> Timeline:
        from mere.lake.iceberg.timeline import Timeline

        if (table, column) not in self._timelines:
            timeline = Timeline(str(table), self.tables.metadata(table), column, self.lake.storage)
            self._timelines[table, column] = timeline
        return self._timelines[table, column]

    def built_by_mere(self) -> Mapping[TableName, State]:
        return self._built

    @cached_property
    def _built(self) -> dict[TableName, State]:
        found = {}
        for table in self.tables:
            try:
                state = self.state(table)
            except LakeError:
                continue  # a table that nobody asked for may be broken
            if state:
                found[table] = state
        return found


class HeadFacts:
    """Facts about refs, read once for each head of theirs: asked again, one row says whether a ref has moved.

    Every thread has its own, for what they find out on the way is not made to be shared.
    """

    def __init__(self) -> None:
        self._kept = threading.local()

    def of(self, lake: Lake, ref: str, now: datetime, offers: Offers | None = None) -> LakeFacts:
        kept: dict[str, LakeFacts] = vars(self._kept)
        old = kept.get(ref)
        tables = lake.current(old.tables) if old else lake.at(ref)
        if old is None or old.tables is not tables:
            kept[ref] = LakeFacts(lake, tables, now, offers=offers)
        elif old.now != now or old.offers is not offers:
            kept[ref] = replace(old, now=now, offers=offers)
        return kept[ref]


def facts(lake: Lake, ref: str, now: datetime, offers: Offers | None = None) -> LakeFacts:
    """Without `offers`, nothing is known of what sources have."""
    return LakeFacts(lake, lake.at(ref), now, offers=offers)

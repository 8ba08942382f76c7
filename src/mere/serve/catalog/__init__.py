"""pg_catalog and information_schema of the lake at a commit, as Arrow tables.

All relations of Postgres 18 are there with their columns; those about things that a lake does not have are empty.

`tables(pin, role, around)` are the relations, and `key(relation)` of it a name that tells what a relation's rows depend
on. `FUNCTIONS` are the functions of pg_catalog that `rewrite(tree)` answers from them, in a list of results or in FROM.
It is called after the guard, with names folded and columns named, and before tables are resolved and the session's own
functions (current_schemas) answered.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from hashlib import blake2b
from typing import TYPE_CHECKING

from cachetools import LRUCache

from mere.names import TableName
from mere.serve import builtin
from mere.serve.access.roles import Role
from mere.serve.builtin import arrow
from mere.serve.catalog import hidden, information, objects, surroundings, temporary
from mere.serve.catalog.calls import FUNCTIONS
from mere.serve.catalog.inventory import Column, Inventory, Relation, Seen, numbers_of, take, visible_shape
from mere.serve.catalog.oids import oid_of
from mere.serve.catalog.rewrite import rewrite
from mere.serve.catalog.surroundings import Surroundings
from mere.serve.engine.tables import Pin

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FUNCTIONS", "Catalog", "Surroundings", "oid_of", "rewrite", "tables"]

_KEPT = 8  # commits, by role: those that clients read at the moment

_OF_LAKE: dict[str, Callable[[Inventory], pa.Table]] = (
    {
        f"pg_catalog.{builder.__name__}": builder
        for builder in (
            objects.pg_namespace,
            objects.pg_class,
            objects.pg_attribute,
            objects.pg_index,
            objects.pg_constraint,
            objects.pg_depend,
            objects.pg_description,
            objects.pg_tables,
            objects.pg_views,
            objects.pg_rewrite,
            objects.pg_indexes,
        )
    }
    | {
        f"pg_catalog.{name}": partial(objects.statistics_of_tables, name)
        for name in ("pg_stat_user_tables", "pg_stat_all_tables")
    }
    | hidden.OF_LAKE
)

_ACTIVITY = "pg_catalog.pg_stat_activity"
_OF_SERVER = surroundings.BUILDERS | hidden.OF_SERVER


class Catalog(Mapping[str, "pa.Table"]):
    """By schema and name, such as `pg_catalog.pg_class`. A relation is made when it is first asked for."""

    def __init__(self, contents: _Contents, around: Callable[[], Surroundings]) -> None:
        self._contents = contents
        self._look_around = around

    @cached_property
    def _around(self) -> Surroundings:
        return self._look_around()

    def __getitem__(self, relation: str) -> pa.Table:
        if build := _OF_SERVER.get(relation):
            return build(self._around)
        if describe := information.BUILDERS.get(relation):
            seen = Seen(self._around.database, self._contents.inventory, self._around.user)
            name = f"{relation} {seen.database} {seen.user}"
            return self._contents.kept(name, partial(describe, seen))
        if of_lake := _OF_LAKE.get(relation):
            return self._contents.kept(relation, lambda: of_lake(self._contents.inventory))
        return _same_everywhere(relation)

    def columns(self, table: TableName) -> tuple[int, tuple[Column, ...]]:
        """The number of a table of the lake, and its columns as the role sees them."""
        return self._contents.columns(table)

    def key(self, relation: str) -> str:
        """A name that tells all that the relation's rows depend on: equal names, equal rows."""
        if relation == _ACTIVITY:
            depends = f"{self._around.user} {self._around.seats}"
        elif relation in _OF_SERVER:
            depends = repr(replace(self._around, settings=dict(sorted(self._around.settings.items()))))
        elif relation in information.BUILDERS:
            depends = f"{self._contents.key} {self._around.database} {self._around.user}"
        else:
            depends = self._contents.key if relation in _OF_LAKE else ""
        digest = blake2b(depends.encode(), digest_size=8).hexdigest()
        return f"{relation} {digest}" if depends else relation

    def __iter__(self) -> Iterator[str]:
        yield from builtin.definitions()
        yield from hidden.NAMES

    def __len__(self) -> int:
        return len(builtin.definitions()) + len(hidden.NAMES)

    def __contains__(self, relation: object) -> bool:
        return relation in builtin.definitions() or relation in hidden.NAMES


def columns_of(pin: Pin, role: Role, table: TableName) -> tuple[int, tuple[Column, ...]]:
    """The number of a table at another ref, and its columns as the role sees them."""
    return _contents(pin, role).columns(table)


def tables(
    pin: Pin, role: Role, around: Callable[[], Surroundings] | None = None, views: tuple[Relation, ...] = ()
) -> Catalog:
    """It costs nothing before a relation of it is asked for: most statements ask for none. `views`: temporary ones."""
    contents = _contents(pin, role)
    return Catalog(
        _WithViews(contents, views) if views else contents,
        around or (lambda: Surroundings(database=pin.ref, user=role.name)),
    )


def _same_everywhere(relation: str) -> pa.Table:
    if fixed := hidden.FIXED.get(relation):
        return fixed()
    schema, _, name = relation.partition(".")
    if relation not in builtin.definitions():
        raise KeyError(relation)
    return arrow.standard_table(name) if schema == "pg_catalog" and builtin.has(name) else arrow.table(relation)


class _Contents:
    """What is made of one commit, for roles that may read the same."""

    def __init__(self, name: str, pin: Pin, role: Role) -> None:
        self._name = name
        self._pin = pin
        self._role = role
        self._tables: dict[str, pa.Table] = {}
        self._lock = threading.RLock()
        self._inventory: Inventory | None = None

    @property
    def inventory(self) -> Inventory:
        with self._lock:
            if self._inventory is None:
                self._inventory = take(self._pin.tables, self._role)
            return self._inventory

    @cached_property
    def _numbers(self) -> dict[tuple[str, ...], int]:
        return numbers_of(self._pin.tables)

    def columns(self, table: TableName) -> tuple[int, tuple[Column, ...]]:
        return self._numbers[table.namespace, table.name], visible_shape(self._pin.tables, self._role, table).columns

    @property
    def is_lasting(self) -> bool:
        """Whether nothing is missing from it that may be there the next time."""
        return self._inventory is None or self._inventory.is_complete

    @property
    def key(self) -> str:
        return self._name if self.inventory.is_complete else f"{self._name} {uuid.uuid4()}"

    def kept(self, name: str, build: Callable[[], pa.Table]) -> pa.Table:
        with self._lock:
            if name not in self._tables:
                self._tables[name] = build()
            return self._tables[name]


class _WithViews(_Contents):
    """With the temporary views of a session. Nothing of it is kept here: DuckDB has it, by the key."""

    def __init__(self, contents: _Contents, views: tuple[Relation, ...]) -> None:
        digest = blake2b(repr(views).encode(), digest_size=8).hexdigest()
        super().__init__(f"{contents._name} {digest}", contents._pin, contents._role)
        self._others = contents
        self._views = views

    @cached_property
    def inventory(self) -> Inventory:
        return temporary.added(self._others.inventory, self._views)


_known: LRUCache[str, _Contents] = LRUCache(_KEPT)
_lock = threading.Lock()


def _contents(pin: Pin, role: Role) -> _Contents:
    past = sorted(f"{table} {snapshot}" for table, snapshot in pin.tables.past.items())
    name = f"{pin.commit} {role.key} {role.history} {past}"
    with _lock:
        found = _known.get(name)
        if found is None or not found.is_lasting:
            found = _known[name] = _Contents(name, pin, role)
        return found

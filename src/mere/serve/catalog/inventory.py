"""What a role sees of the lake at one commit: schemas, tables, views, columns. Read from metadata files alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock

from cachetools import LRUCache

from mere.errors import LakeError
from mere.lake.iceberg.metadata import Json, Metadata, MetadataReader
from mere.lake.iceberg.schema import key_of, view_sql
from mere.lake.log.commits import Kind, Space
from mere.lake.metadata_tables.tables import OF_LAKE, SCHEMA
from mere.lake.query.metadata_tables import QUARANTINE
from mere.lake.query.tables import TableSet
from mere.names import TableName
from mere.serve import builtin
from mere.serve.access.roles import Role
from mere.serve.catalog.oids import PUBLIC, oid_of, oids_of
from mere.serve.catalog.types import ColumnType, of_iceberg

COMMENT = "comment"
_READERS = 16  # of metadata files at a time, where they are behind a network
_KNOWN = 20_000  # shapes that are kept


@dataclass(frozen=True)
class Column:
    number: int  # from 1 on, the one that clients use
    name: str
    type: ColumnType
    required: bool
    comment: str | None


@dataclass(frozen=True)
class Shape:
    """What one metadata file tells of its table or view. It never changes."""

    columns: tuple[Column, ...] = ()
    key: tuple[int, ...] = ()  # numbers of columns
    comment: str | None = None
    rows: int = -1  # as Postgres has it where nobody has counted
    size: int = 0
    sql: str | None = None  # of a view


@dataclass(frozen=True)
class Relation:
    oid: int
    table: TableName
    is_view: bool
    shape: Shape
    index: int = 0  # the oid of the index of its key, if it has one
    constraint: int = 0

    @property
    def schema(self) -> str:
        return self.table.namespace

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def key_name(self) -> str:
        return f"{self.name}_pkey"

    @property
    def key(self) -> tuple[Column, ...]:
        return tuple(self.shape.columns[number - 1] for number in self.shape.key)


@dataclass(frozen=True)
class NotNull:
    """Since Postgres 18 it is a constraint with a name."""

    oid: int
    relation: Relation
    column: Column

    @property
    def name(self) -> str:
        return f"{self.relation.name}_{self.column.name}_not_null"


@dataclass(frozen=True)
class Schema:
    oid: int
    name: str
    comment: str | None = None


@dataclass(frozen=True)
class Inventory:
    schemas: tuple[Schema, ...]
    relations: tuple[Relation, ...]
    is_complete: bool  # else there are tables whose metadata could not be read, which may be otherwise the next time

    @cached_property
    def schema_oids(self) -> dict[str, int]:
        return {schema.name: schema.oid for schema in self.schemas}

    @cached_property
    def keyed(self) -> tuple[Relation, ...]:
        return tuple(relation for relation in self.relations if relation.index)

    @cached_property
    def views(self) -> tuple[Relation, ...]:
        return tuple(relation for relation in self.relations if relation.is_view)

    @cached_property
    def not_null(self) -> tuple[NotNull, ...]:
        wanted = [(relation, column) for relation, column in self.columns() if column.required and not relation.is_view]
        oids = oids_of((relation.schema, relation.name, "not null", column.name) for relation, column in wanted)
        return tuple(
            NotNull(oids[relation.schema, relation.name, "not null", column.name], relation, column)
            for relation, column in wanted
        )

    @cached_property
    def rules(self) -> dict[int, int]:
        """Of each view, the catalogs' own included, the oid of what Postgres keeps it as."""
        views = {(each.schema, each.name): each.oid for each in builtin.definitions().values() if each.kind == "v"}
        views |= {(view.schema, view.name): view.oid for view in self.views}
        oids = oids_of((*name, "rule") for name in views)
        return {oids[*name, "rule"]: view for name, view in views.items()}

    def columns(self) -> Iterator[tuple[Relation, Column]]:
        for relation in self.relations:
            for column in relation.shape.columns:
                yield relation, column


@dataclass(frozen=True)
class Seen:
    """An inventory, in the database as which it is read."""

    database: str
    inventory: Inventory
    user: str


def take(tables: TableSet, role: Role) -> Inventory:
    names = [table for table in tables if role.may_read(table)]
    read = dict(zip(names, _SHAPES.of([tables.pointer(table) for table in names], tables.reader), strict=True))
    # A table that cannot be read is listed without columns: the others are still there.
    shapes = {table: _allowed(shape or Shape(), role, table) for table, shape in read.items()}
    # Schemas without a table are seen by everyone: nothing in them is kept from anyone.
    hidden = {table.namespace for table in tables} - {table.namespace for table in names}
    own = {name: schema for name, schema in OF_LAKE.items() if role.history or name == QUARANTINE.name}
    schemas = sorted({*tables.namespaces, "public"} - hidden | {SCHEMA})
    numbers = numbers_of(tables)
    comments = {
        key.namespace: entry.value
        for key, entry in tables.entries.items()
        if key.space is Space.PROPERTY and key.name == COMMENT
    }
    return Inventory(
        tuple(
            Schema(PUBLIC if schema == "public" else numbers[schema,], schema, comments.get(schema))
            for schema in schemas
        ),
        tuple(
            Relation(
                numbers[table.namespace, table.name],
                table,
                tables.entry(table).kind is Kind.VIEW,
                shape,
                numbers[table.namespace, table.name, "index"] if shape.key else 0,
                numbers[table.namespace, table.name, "key"] if shape.key else 0,
            )
            for table, shape in shapes.items()
        )
        + tuple(
            Relation(numbers[SCHEMA, name], table, False, Shape(columns_of_schema(schema)))
            for name, schema in own.items()
            if (table := TableName(SCHEMA, name)) not in shapes
        ),
        None not in read.values(),
    )


def numbers_of(tables: TableSet) -> dict[tuple[str, ...], int]:
    """Of all names, also those that a role does not see: they are the same for every role."""
    return oids_of(
        {(SCHEMA,), *((schema,) for schema in tables.namespaces)}
        | {(table.namespace, table.name) for table in tables}
        | {(SCHEMA, name) for name in OF_LAKE}
        | {(table.namespace, table.name, part) for table in tables for part in ("index", "key")}
    )


def number_of(table: TableName) -> int:
    """Of a metadata table; 0 of one that no catalog lists."""
    return oid_of(SCHEMA, table.name) if table.namespace == SCHEMA and table.name in OF_LAKE else 0


def visible_shape(tables: TableSet, role: Role, table: TableName) -> Shape:
    (shape,) = _SHAPES.of([tables.pointer(table)], tables.reader)
    return _allowed(shape or Shape(), role, table)


def _allowed(shape: Shape, role: Role, table: TableName) -> Shape:
    if role.is_restricted:
        shape = replace(shape, sql=None)  # it may name what the role does not see
    if role.conditions(table):
        shape = replace(shape, rows=-1, size=0)  # as if nobody had counted: it tells of rows that the role does not see
    if (names := role.chosen(table, [column.name for column in shape.columns])) is None:
        return shape
    left = [column for column in shape.columns if column.name in names]
    numbers = {column.number: at for at, column in enumerate(left, 1)}
    key = tuple(numbers[number] for number in shape.key if number in numbers)
    return replace(
        shape,
        columns=tuple(replace(column, number=numbers[column.number]) for column in left),
        key=key if len(key) == len(shape.key) else (),
    )


class _Shapes:
    """Each metadata file is read once, whatever commits, refs and roles it is read for."""

    def __init__(self) -> None:
        self._known: LRUCache[str, Shape] = LRUCache(_KNOWN)
        self._lock = Lock()

    def of(self, pointers: Sequence[str], reader: MetadataReader) -> list[Shape | None]:
        """None where a file is gone or broken, or cannot be reached just now."""
        with self._lock:
            found: dict[str, Shape | None] = {each: self._known[each] for each in pointers if each in self._known}
        missing = list(dict.fromkeys(pointer for pointer in pointers if pointer not in found))
        found.update(zip(missing, self._read(missing, reader), strict=True))
        with self._lock:
            if len(pointers) > self._known.maxsize:  # of a lake with more tables, all the same
                self._known = LRUCache(len(pointers))
            self._known.update((pointer, shape) for pointer, shape in found.items() if shape is not None)
        return [found[pointer] for pointer in pointers]

    @staticmethod
    def _read(pointers: Sequence[str], reader: MetadataReader) -> list[Shape | None]:
        if len(pointers) < _READERS or reader.storage.s3 is None:
            return [_shape(pointer, reader) for pointer in pointers]
        with ThreadPoolExecutor(_READERS) as pool:
            return list(pool.map(lambda pointer: _shape(pointer, reader), pointers))


_SHAPES = _Shapes()


def _shape(pointer: str, reader: MetadataReader) -> Shape | None:
    try:
        return shape_of(reader.read(pointer))
    except (LakeError, LookupError, TypeError, ValueError, AttributeError, StopIteration):
        return None


def columns_of_schema(schema: Json) -> tuple[Column, ...]:
    return tuple(
        Column(number, field["name"], of_iceberg(field["type"]), field.get("required", False), field.get("doc"))
        for number, field in enumerate(schema["fields"], 1)
    )


def shape_of(metadata: Metadata) -> Shape:
    columns = columns_of_schema(metadata.schema)
    comment = metadata.properties.get(COMMENT)
    if metadata.is_view:
        return Shape(columns, comment=comment, sql=view_sql(metadata)[0])
    return Shape(columns, _key(metadata, columns), comment, metadata.rows, metadata.size)


def _key(metadata: Metadata, columns: Sequence[Column]) -> tuple[int, ...]:
    numbers = {column.name: column.number for column in columns}
    return tuple(numbers[name] for name in key_of(metadata))

"""Relations of the gateway's own, in which the functions of pg_catalog look things up. Clients never see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from mere.serve import builtin
from mere.serve.builtin.names import quoted
from mere.serve.catalog.inventory import Inventory
from mere.serve.catalog.objects import described, index_definition, key_definition
from mere.serve.catalog.oids import CLASS, NAMESPACE
from mere.serve.catalog.surroundings import Surroundings, database_oid
from mere.serve.catalog.typeinfo import typeinfo
from mere.serve.catalog.types import built_in
from mere.serve.catalog.types import spellings as known_spellings

if TYPE_CHECKING:
    import pyarrow as pa

_PREFIX = "pg_catalog.mere_"


def relations(inventory: Inventory) -> pa.Table:
    """Everything that has a row in pg_class, with its names as they may be written, and its bytes."""
    rows = [(each.oid, each.schema, each.name, 0) for each in builtin.definitions().values()]
    for relation in inventory.relations:
        rows.append((relation.oid, relation.schema, relation.name, relation.shape.size))
        if relation.index:
            rows.append((relation.index, relation.schema, relation.key_name, 0))
    return _table(
        [
            (oid, schema, name, quoted(name), f"{quoted(schema)}.{quoted(name)}", _plain(schema, name), size)
            for oid, schema, name, size in rows
        ],
        "oid", "schema", "name", "alone", "qualified", "plain", "size",
    )  # fmt: skip


def _plain(schema: str, name: str) -> str:
    """Without quotes, however the name was written."""
    return f"{schema}.{name}".replace('"', "")


def definitions(inventory: Inventory) -> pa.Table:
    """What pg_get_viewdef, pg_get_constraintdef and pg_get_indexdef say, and the latter of single columns. `short`: of
    an index on the table `name` of the `schema`, where that is found without the schema."""
    texts: list[tuple[int, int, str | None]] = [(view.oid, 0, view.shape.sql) for view in inventory.views]
    texts += [(each.oid, 0, f"NOT NULL {quoted(each.column.name)}") for each in inventory.not_null]
    texts += [(relation.constraint, 0, key_definition(relation)) for relation in inventory.keyed]
    rows: list[tuple[Any, ...]] = [(*each, each[2], None, None) for each in texts]
    for relation in inventory.keyed:
        long, short = (index_definition(relation, with_schema=each) for each in (True, False))
        columns = [quoted(column.name) for column in relation.key]
        both = [(long, short), *((column, column) for column in columns)]
        rows += [(relation.index, at, *each, relation.schema, relation.name) for at, each in enumerate(both)]
    return _table(rows, "oid", "part", "definition", "short", "schema", "name")


def comments(inventory: Inventory) -> pa.Table:
    """By the relation that lists what they are about."""
    named = {NAMESPACE: "pg_namespace", CLASS: "pg_class"}
    rows = [(oid, named[listed], part, text) for oid, listed, part, text in described(inventory)]
    return _table(rows, "oid", "class", "part", "comment")


def schemas(inventory: Inventory) -> pa.Table:
    own = [(schema.oid, schema.name, quoted(schema.name)) for schema in inventory.schemas]
    others = [(builtin.schema_oid(name), name, name) for name in ("pg_catalog", "information_schema")]
    return _table(others + own, "oid", "name", "quoted")


def columns(inventory: Inventory) -> pa.Table:
    """Of everything in pg_class. `part`: their numbers."""
    rows = [(relation.oid, column.name, column.number) for relation, column in inventory.columns()]
    for relation in builtin.definitions().values():
        rows += [(relation.oid, column.name, at) for at, column in enumerate(relation.columns, 1)]
    return _table(rows, "oid", "name", "part")


@cache
def types() -> pa.Table:
    """`base`: what a modifier belongs to, without the brackets of an array."""
    return _table(
        [
            (each.oid, each.schema, each.name, each.qualified, each.words.removesuffix("[]"), "[]" * each.is_array)
            for each in built_in().values()
        ],
        "oid", "schema", "name", "words", "base", "brackets",
    )  # fmt: skip


@cache
def functions() -> pa.Table:
    """What pg_get_function_arguments and the like say."""
    columns, known = builtin.columns("pg_proc"), built_in()
    wanted = ("oid", "proname", "proargtypes", "proretset", "prorettype")
    return _table(
        [
            (
                *(oid, name, ", ".join(known[each].words for each in arguments), "SETOF " * many + known[result].words),
                *_signatures(name, arguments),
            )
            for oid, name, arguments, many, result in zip(*(columns[each] for each in wanted), strict=True)
        ],
        "oid", "name", "arguments", "result", "signature", "named_signature",
    )  # fmt: skip


@cache
def spellings() -> pa.Table:
    """The types by all of their names."""
    return _table([(each.oid, name) for name, each in known_spellings().items()], "oid", "name")


@cache
def operators() -> pa.Table:
    columns, known = builtin.columns("pg_operator"), built_in()
    wanted = ("oid", "oprname", "oprleft", "oprright")
    return _table(
        [
            (oid, name, ",".join(known[each].words if each else "NONE" for each in sides), *_signatures(name, sides))
            for oid, name, *sides in zip(*(columns[each] for each in wanted), strict=True)
        ],
        "oid", "name", "arguments", "signature", "named_signature",
    )  # fmt: skip


def _signatures(name: str, arguments: Sequence[int]) -> tuple[str, str]:
    """With the words of SQL for its types and with their names, in lower case and without spaces."""
    known = built_in()
    words = (known[each].words if each else "none" for each in arguments)
    names = (known[each].name if each else "none" for each in arguments)
    first, second = (f"{name}({','.join(each)})".lower().replace(" ", "") for each in (words, names))
    return first, second


@cache
def collations() -> pa.Table:
    columns = builtin.columns("pg_collation")
    rows = zip(columns["oid"], columns["collname"], strict=True)
    return _table([(oid, name, quoted(name)) for oid, name in rows], "oid", "name", "quoted")


@cache
def keywords() -> pa.Table:
    """The rows of pg_get_keywords()."""
    import pyarrow as pa

    names = ("word", "catcode", "barelabel", "catdesc", "baredesc")
    columns = {name: [row[at] for row in builtin.keyword_rows()] for at, name in enumerate(names)}
    return pa.table(columns | {"barelabel": [each == "t" for each in columns["barelabel"]]})


def roles(around: Surroundings) -> pa.Table:
    return _table(around.roles, "oid", "name")


def databases(around: Surroundings) -> pa.Table:
    return _table([(database_oid(name), name) for name in around.all_databases], "oid", "name")


def settings(around: Surroundings) -> pa.Table:
    return _table([(name.lower(), value) for name, value in around.settings.items()], "name", "value")


def _table(rows: Sequence[tuple[Any, ...]], *names: str) -> pa.Table:
    import pyarrow as pa

    kinds = {"oid": pa.int64(), "size": pa.int64(), "part": pa.int32()}
    return pa.table(
        {
            f"mere_{name}": pa.array([row[at] for row in rows], kinds.get(name, pa.string()))
            for at, name in enumerate(names)
        }
    )


OF_LAKE: dict[str, Callable[[Inventory], pa.Table]] = {
    f"{_PREFIX}{each.__name__}": each for each in (relations, definitions, comments, schemas, columns)
}
FIXED: dict[str, Callable[[], pa.Table]] = {
    f"{_PREFIX}{each.__name__}": each
    for each in (types, spellings, functions, operators, collations, keywords, typeinfo)
}
OF_SERVER: dict[str, Callable[[Surroundings], pa.Table]] = {
    f"{_PREFIX}{each.__name__}": each for each in (roles, databases, settings)
}
NAMES = frozenset({*OF_LAKE, *FIXED, *OF_SERVER})

"""What clients ask of the catalogs by themselves, answered as Postgres answers it for the same tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from mere.serve.protocol import types
from tests.serve.queries import Query, Rows, Server, queries


@pytest.fixture(scope="module")
def postgres(shop_in_postgres: str) -> Iterator[Server]:
    server = Server(shop_in_postgres)
    yield server
    server.close()


@pytest.fixture(scope="module")
def gateway(shop_in_lake: str) -> Iterator[Server]:
    server = Server(shop_in_lake)
    yield server
    server.close()


@pytest.mark.parametrize("query", queries(), ids=str)
def test_a_client_gets_what_postgres_would_give(query: Query, gateway: Server, postgres: Server) -> None:
    ours = gateway.ask(query)
    if query.refused is not None:
        with pytest.raises(AssertionError, match=re.escape(query.refused)):
            postgres.ask(query)
        assert ours.columns
        return
    theirs = postgres.ask(query)
    assert ours.columns == theirs.columns
    assert bool(_types(ours, theirs)) == (query.typed is not None), _types(ours, theirs)
    if query.nothing is not None:
        assert theirs.rows
        assert not ours.rows
    elif query.differs is None:
        assert query.arranged(ours.rows) == query.arranged(theirs.rows)
    else:
        assert bool(ours.rows) == bool(theirs.rows)


_REGTYPES = (types.REGPROC, 2202, 2203, 2204, types.REGCLASS, types.REGTYPE, 4089, 4096, 4191)


def _types(ours: Rows, theirs: Rows) -> list[tuple[str, int, int]]:
    """What differs: the column, our type, Postgres's. What is shown as the name of something is told as a text."""
    pairs = zip(ours.columns, ours.types, theirs.types, strict=True)
    return [each for each in pairs if each[1] != each[2] and not (each[1] == types.TEXT and each[2] in _REGTYPES)]


def test_no_query_is_recorded_twice() -> None:
    found: dict[tuple[object, ...], list[str]] = {}
    for query in queries():
        text = " ".join(query.text.split()).replace(" ,", ",").rstrip(" ;")
        found.setdefault((query.client.partition("_")[0], text, query.values), []).append(str(query))
    assert [names for names in found.values() if len(names) > 1] == []


# The views of information_schema by the column that has the schema, and what is not as in Postgres: nothing can be
# written, and a view is in Spark's SQL.
_VIEWS = {
    "schemata": ("schema_name", ()),
    "tables": ("table_schema", ("is_insertable_into",)),
    "columns": ("table_schema", ("is_updatable",)),
    "views": ("table_schema", ("view_definition",)),
    "table_constraints": ("table_schema", ()),
    "check_constraints": ("constraint_schema", ()),
    "key_column_usage": ("table_schema", ()),
    "constraint_column_usage": ("table_schema", ()),
    "constraint_table_usage": ("table_schema", ()),
    "element_types": ("object_schema", ()),
    "referential_constraints": ("constraint_schema", ()),
    "sequences": ("sequence_schema", ()),
    "triggers": ("trigger_schema", ()),
}  # fmt: skip


@pytest.mark.parametrize("view", _VIEWS)
def test_information_schema_is_that_of_postgres(view: str, gateway: Server, postgres: Server) -> None:
    schema, others = _VIEWS[view]
    query = Query("", view, f"SELECT * FROM information_schema.{view} WHERE {schema} IN ('gold', 'silver')")
    ours, theirs = gateway.ask(query), postgres.ask(query)
    assert ours.columns == theirs.columns
    same = [at for at, name in enumerate(ours.columns) if name not in others]
    found, wanted = ([[row[at] for at in same] for row in each.rows] for each in (ours, theirs))
    assert sorted(found, key=str) == sorted(wanted, key=str)

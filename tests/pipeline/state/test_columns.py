"""The columns of a table beside those of a query: pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mere.pipeline.state.columns import Array, Column, Map, Struct, Type, compare, of_query, of_table

TABLE = {
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "at", "required": False, "type": "timestamptz", "doc": "When."},
        {"id": 3, "name": "local", "required": False, "type": "timestamp"},
        {"id": 4, "name": "price", "required": False, "type": "decimal(10, 2)"},
        {"id": 5, "name": "code", "required": False, "type": "fixed[16]"},
        {"id": 6, "name": "tags", "required": False, "type": {"type": "list", "element-id": 7, "element": "int"}},
        {
            "id": 8,
            "name": "more",
            "required": False,
            "type": {
                "type": "map",
                "key": "uuid",
                "value": {"type": "struct", "fields": [{"id": 9, "name": "x", "type": "float", "required": False}]},
            },
        },
    ]
}
QUERY = {
    "type": "struct",
    "fields": [
        {"name": "id", "nullable": False, "type": "long", "metadata": {}},
        {"name": "at", "nullable": True, "type": "timestamp", "metadata": {}},
        {"name": "local", "nullable": True, "type": "timestamp_ntz", "metadata": {}},
        {"name": "price", "nullable": True, "type": "decimal(10,2)", "metadata": {}},
        {"name": "code", "nullable": True, "type": "binary", "metadata": {}},
        {"name": "tags", "nullable": True, "type": {"type": "array", "elementType": "short"}, "metadata": {}},
        {
            "name": "more",
            "nullable": True,
            "metadata": {},
            "type": {
                "type": "map",
                "keyType": "varchar(36)",
                "valueType": {"type": "struct", "fields": [{"name": "x", "type": "float", "nullable": True}]},
            },
        },
    ],
}


def test_a_table_and_a_query_are_told_in_the_same_words() -> None:
    assert [(each.name, each.type) for each in of_table(TABLE)] == [(each.name, each.type) for each in of_query(QUERY)]
    assert [str(each.type) for each in of_table(TABLE)] == [
        *("bigint", "timestamp", "timestamp_ntz", "decimal(10,2)", "binary", "array<int>"),
        "map<string,struct<x:float>>",
    ]
    first, second, *_ = of_table(TABLE)
    assert (first.required, second.required, second.comment) == (True, False, "When.")


def differences(old: Mapping[str, Type], new: Mapping[str, Type], was: Mapping[str, str] | None = None) -> list[str]:
    table, query = ([Column(name, kind) for name, kind in each.items()] for each in (old, new))
    return [f"{change.what} {change.name}" for change in compare(table, query, was or {})]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("int", "bigint", "widened x"),
        ("float", "double", "widened x"),
        ("decimal(10,2)", "decimal(12,2)", "widened x"),
        ("bigint", "int", "narrowed x"),
        ("double", "float", "narrowed x"),
        ("decimal(12,2)", "decimal(10,2)", "narrowed x"),
        ("decimal(10,2)", "decimal(12,3)", "narrowed x"),  # fewer digits before the point
        ("int", "double", "narrowed x"),  # Iceberg does not do it, though each would fit
        ("date", "timestamp", "narrowed x"),
        ("int", "string", "narrowed x"),
        ("string", "string", None),
        (Array("int"), Array("bigint"), "widened x.element"),
        (Array("bigint"), Array("int"), "narrowed x.element"),
        (Array("int"), "int", "narrowed x"),
        (Map("string", "int"), Map("string", "bigint"), "widened x.value"),
        (Map("int", "int"), Map("bigint", "int"), "narrowed x"),  # the key of a map stays what it is
        (Struct((Column("a", "int"),)), Struct((Column("A", "bigint"),)), "widened x.a"),
        (Struct((Column("a", "int"),)), Struct((Column("a", "int"), Column("b", "int"))), "added x.b"),
        (Struct((Column("a", "int"), Column("b", "int"))), Struct((Column("b", "int"),)), "dropped x.a"),
        (Array(Struct((Column("a", "float"),))), Array(Struct((Column("a", "double"),))), "widened x.element.a"),
    ],
)
def test_types(old: Type, new: Type, what: str | None) -> None:
    assert differences({"x": old}, {"x": new}) == ([what] if what else [])


@pytest.mark.parametrize(
    ("old", "new", "was", "found"),
    [
        (["a", "b"], ["B", "A"], {}, []),
        (["a"], ["a", "b"], {}, ["added b"]),
        (["a", "b"], ["a"], {}, ["dropped b"]),
        (["a"], ["b"], {}, ["dropped a", "added b"]),
        (["a"], ["b"], {"b": "a"}, ["renamed b"]),
        (["A"], ["b"], {"B": "a"}, ["renamed b"]),
        (["b"], ["b"], {"b": "a"}, []),  # it has happened
        (["a", "b"], ["b"], {"b": "a"}, ["dropped a"]),  # both stand: the old one is another column
        (["a"], ["b", "a"], {"b": "a"}, ["renamed b", "added a"]),
        (["a", "b"], ["c", "d"], {"c": "a", "d": "b"}, ["renamed c", "renamed d"]),
        ([], ["b"], {"b": "a"}, ["added b"]),
    ],
)
def test_names(old: list[str], new: list[str], was: dict[str, str], found: list[str]) -> None:
    assert differences(dict.fromkeys(old, "int"), dict.fromkeys(new, "int"), was) == found


def test_a_renamed_column_is_widened_under_its_new_name() -> None:
    changes = compare([Column("amount", "int")], [Column("total", "bigint")], {"total": "amount"})
    assert [str(change) for change in changes] == [
        "renames amount to total",
        "makes total a bigint: it is an int",
    ]
    assert not any(change.breaks for change in changes)


kinds = st.recursive(
    st.sampled_from(["int", "bigint", "float", "double", "string", "decimal(5,2)", "decimal(9,2)"]),
    lambda inner: st.one_of(
        inner.map(Array),
        st.tuples(inner, inner).map(lambda pair: Map(*pair)),
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1).map(
            lambda fields: Struct(tuple(Column(name, fields[name]) for name in sorted(fields)))
        ),
    ),
    max_leaves=6,
)
tables = st.dictionaries(st.sampled_from("abcde"), kinds)


@given(tables, tables)
def test_what_is_lost_one_way_is_gained_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    """So that nothing is let through that cannot be had back, and what is the same is no change."""
    there, back = (set(differences(*pair)) for pair in ((old, new), (new, old)))
    opposite = {
        "added": {"dropped"},
        "dropped": {"added"},
        "widened": {"narrowed"},
        "narrowed": {"widened", "narrowed"},
    }
    for change in there:
        what, name = change.split(" ")
        assert {f"{each} {name}" for each in opposite[what]} & back
    assert bool(there) == bool(back) == (old != new)

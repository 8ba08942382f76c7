"""The rule for names, and what becomes of columns that are new, missing or of another type."""

from __future__ import annotations

import pytest

from mere.errors import RunFailed
from mere.names import TableName
from mere.pipeline.load.formats.casts import How, how, is_exact
from mere.pipeline.load.formats.columns import Agreement, Needs, Seen, Shape, Target, column_name, matched, to_json
from mere.pipeline.state.columns import Array, Type
from mere.project.kinds import Kind
from mere.project.model import Model
from mere.sources.source import Declared, Files, Format, OnNewColumn, Source


def model(*, keep: bool = False, new: OnNewColumn = OnNewColumn.ADD, **columns: Declared) -> Model:
    source = Source(Files("data/*", Format.PARQUET), "code", columns=columns, keep_names=keep, on_new_column=new)
    return Model(TableName("bronze", "sales"), Kind.SOURCE, "sources/sales.yaml", source)


def agreement(it: Model, *table: tuple[str, Type], text: bool = False, needs: Needs = Needs.ALL) -> Agreement:
    assert isinstance(it.body, Source)
    types = {name: each.type for name, each in it.body.columns.items() if each.type}
    return Agreement(it, it.body, types, table, {"_file": "taken"}, needs, text)


def shape(**columns: Type | None) -> Shape:
    return tuple(Seen(name, kind) for name, kind in columns.items())


def types(given: list[Target]) -> dict[str, str]:
    return {target.name: str(target.type) for target in given}


# names


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("id", "id"),
        ("VendorID", "vendorid"),
        ("Amount (EUR)", "amount_eur"),
        ("Airport_fee", "airport_fee"),
        ("a.b", "a_b"),
        ("a - b", "a_b"),
        ("  spaced out  ", "spaced_out"),
        ("_id", "_id"),
        ("__dunder__", "__dunder__"),
        ("%_x", "_x"),
        ("2024 sales", "_2024_sales"),
        ("Größe in m²", "größe_in_m²"),
        ("Gro\u0308\u00dfe", "größe"),
        ("select", "select"),
        ("a`b", "a_b"),
        ("tab\there\n", "tab_here"),
        ("", "column_7"),
        ("---", "column_7"),
    ],
)
def test_names_follow_one_rule(name: str, column: str) -> None:
    assert column_name(name, 7) == column


def source_of(it: Model) -> Source:
    assert isinstance(it.body, Source)
    return it.body


def test_names_can_be_kept() -> None:
    it = model(keep=True)
    assert matched(it, source_of(it), "a.csv", ["Amount (EUR)", "Id", ""]) == {
        "Amount (EUR)": 0,
        "Id": 1,
        "column_3": 2,
    }


def test_a_declared_column_is_found_by_its_name_by_the_rule_or_by_from() -> None:
    it = model(amount=Declared(source="Amount (EUR)"), Id=Declared(), plain=Declared())
    assert matched(it, source_of(it), "a.csv", ["PLAIN", "x", "ID", "amount (eur)"]) == {
        "amount": 3,
        "plain": 0,
        "x": 1,
        "Id": 2,
    }


def test_from_takes_the_column_that_is_written_so_before_one_in_other_case() -> None:
    it = model(lower=Declared(source="fee"), upper=Declared(source="FEE"))
    assert matched(it, source_of(it), "a.csv", ["FEE", "fee"]) == {"lower": 1, "upper": 0}


def test_from_takes_nothing_if_it_is_not_there_or_could_be_two() -> None:
    it = model(price=Declared(source="fee"))
    assert matched(it, source_of(it), "a.csv", ["id"]) == {"id": 0}
    with pytest.raises(RunFailed, match="two columns for fee"):
        matched(it, source_of(it), "a.csv", ["Fee", "FEE"])


@pytest.mark.parametrize("names", [["Net Amount", "net-amount"], ["a", "a"]])
def test_two_that_become_the_same_are_an_error_that_shows_both(names: list[str]) -> None:
    with pytest.raises(RunFailed) as failed:
        matched(model(), source_of(model()), "b.csv", names)
    assert all(repr(name) in str(failed.value) for name in names)
    assert "b.csv" in str(failed.value)


def test_a_column_that_mere_has_of_its_own_is_an_error() -> None:
    with pytest.raises(RunFailed, match="_file is taken"):
        agreement(model()).take("a", shape(_file="string"))


# new columns


def test_the_columns_of_the_first_file_are_the_tables_whatever_becomes_of_new_ones() -> None:
    for new in OnNewColumn:
        it = agreement(model(new=new))
        assert it.take("a", shape(Id="bigint", City="string")) == {"id": 0, "city": 1}
        assert types(it.finish()) == {"id": "bigint", "city": "string"}


def test_a_new_column_is_added_left_out_or_an_error() -> None:
    added = agreement(model(), ("id", "bigint"))
    assert added.take("a", shape(zip="int", id="bigint")) == {"zip": 0, "id": 1}
    assert types(added.finish()) == {"id": "bigint", "zip": "int"}

    ignored = agreement(model(new=OnNewColumn.IGNORE), ("id", "bigint"))
    assert ignored.take("a", shape(zip="int", id="bigint")) == {"id": 1}
    assert types(ignored.finish()) == {"id": "bigint"}

    with pytest.raises(RunFailed) as failed:
        agreement(model(new=OnNewColumn.FAIL), ("id", "bigint")).take("b.parquet", shape(zip="int", id="bigint"))
    assert "zip is new" in str(failed.value)
    assert "on_new_column: add" in str(failed.value)


def test_beside_a_declaration_every_other_column_is_new() -> None:
    it = agreement(model(new=OnNewColumn.IGNORE, id=Declared("bigint")))
    it.take("a", shape(id="bigint", zip="int"))
    assert types(it.finish()) == {"id": "bigint"}


def test_a_column_without_a_value_becomes_one_when_a_file_says_of_which_type() -> None:
    it = agreement(model())
    it.take("a", shape(id="bigint", fee=None))
    assert types(it.finish()) == {"id": "bigint"}
    it.take("b", shape(id="bigint", fee="double"))
    assert it.take("c", shape(id="bigint", fee=None)) == {"id": 0, "fee": 1}
    assert types(it.finish()) == {"id": "bigint", "fee": "double"}


# missing columns


def test_a_declared_column_must_be_there_unless_it_is_optional() -> None:
    it = agreement(model(id=Declared("bigint"), city=Declared("string", optional=True)))
    assert it.take("a", shape(id="bigint")) == {"id": 0}
    assert types(it.finish()) == {"id": "bigint", "city": "string"}
    with pytest.raises(RunFailed, match="id is missing"):
        it.take("b", shape(city="string"))


def test_without_a_declaration_what_every_file_had_must_be_there() -> None:
    it = agreement(model(), ("id", "bigint"), ("city", "string"), ("zip", "int"))
    it.remember(to_json(shape(Id="bigint", City="string")))
    it.remember(to_json(shape(Id="bigint", City="string", zip="int")))
    assert it.take("a", shape(id="bigint", city="string")) == {"id": 0, "city": 1}
    with pytest.raises(RunFailed, match="city is missing"):
        it.take("b", shape(id="bigint", zip="int"))


def test_the_files_of_one_load_are_held_against_each_other() -> None:
    it = agreement(model())
    it.take("a", shape(id="bigint"))
    it.take("b", shape(id="bigint", city="string"))
    it.take("c", shape(id="bigint"))
    with pytest.raises(RunFailed, match="id is missing"):
        it.take("d", shape(city="string"))


def test_records_of_json_need_not_have_what_others_had() -> None:
    it = agreement(model(id=Declared("bigint")), text=True, needs=Needs.DECLARED)
    it.take("a", (Seen("id"), Seen("city")))
    it.take("b", (Seen("id"),))
    with pytest.raises(RunFailed, match="id is missing"):
        it.take("c", (Seen("city"),))


# types


def test_both_schemas_stand_side_by_side() -> None:
    it = agreement(model(new=OnNewColumn.FAIL, amount=Declared("double")), ("id", "bigint"), ("gone", "string"))
    it.remember(to_json(shape(id="bigint", gone="string")))
    with pytest.raises(RunFailed) as failed:
        it.take("2024/b.parquet", shape(ID="bigint", Amount="string", amuont="int"))
    first, *rest = str(failed.value).splitlines()
    assert first == (
        "sources/sales.yaml: 2024/b.parquet does not have the columns of bronze.sales: gone is missing;"
        " amount is string, not double; amuont is new. Nothing was loaded."
    )
    assert rest[:6] == [
        "  bronze.sales     2024/b.parquet",
        "  id bigint        ID bigint",
        "  gone string    -",
        "  amount double  ≠ Amount string",
        "                 + amuont int",
        "If files may lack it: `columns: {gone: {optional: true}}`.",
    ]


def test_a_renamed_column_is_guessed() -> None:
    it = agreement(model(amount=Declared("double")))
    with pytest.raises(RunFailed, match="Did you mean amuont"):
        it.take("a", shape(amuont="double"))


@pytest.mark.parametrize(
    ("table", "file", "then"),
    [
        ("int", "bigint", "bigint"),  # the table can be widened
        ("decimal(10,2)", "decimal(12,2)", "decimal(12,2)"),
        ("float", "double", "double"),
        ("bigint", "int", "bigint"),
        ("double", "bigint", "double"),  # value by value
        ("bigint", "double", "bigint"),
        ("timestamp", "date", "timestamp"),
    ],
)
def test_numbers_of_another_type_fit_if_their_values_do(table: str, file: str, then: str) -> None:
    it = agreement(model(), ("x", table))
    it.take("a", shape(x=file))
    assert types(it.finish()) == {"x": then}


@pytest.mark.parametrize(
    ("table", "file"),
    [
        ("string", "int"),
        ("int", "string"),
        ("decimal(10,2)", "double"),
        ("decimal(10,2)", "decimal(12,4)"),
        ("bigint", "boolean"),
        ("timestamp", "timestamp_ntz"),
        ("date", "timestamp"),
        ("binary", "string"),
        (Array("int"), Array("string")),
        (Array("int"), "int"),
    ],
)
def test_other_types_are_an_error(table: Type, file: Type) -> None:
    with pytest.raises(RunFailed, match=r"x is .*, not"):
        agreement(model(), ("x", table)).take("a", shape(x=file))


def test_a_column_that_is_not_in_the_table_yet_takes_the_type_that_holds_all() -> None:
    it = agreement(model())
    it.take("a", shape(x="int", y="double"))
    it.take("b", shape(x="double", y="int"))
    assert types(it.finish()) == {"x": "double", "y": "double"}


def test_times_with_and_without_zone_are_one_family_only_where_that_is_declared() -> None:
    it = agreement(model(at=Declared("timestamp"), day=Declared("date")))
    it.take("a", shape(at="timestamp_ntz", day="timestamp_ntz"))
    assert types(it.finish()) == {"at": "timestamp", "day": "date"}


def test_a_declared_column_without_a_type_has_the_tables_or_the_files() -> None:
    it = agreement(model(x=Declared(optional=True), y=Declared()), ("x", "int"), text=True)
    it.take("a", (Seen("x"), Seen("y")))
    assert types(it.finish()) == {"x": "int", "y": "string"}


@pytest.mark.parametrize(
    ("given", "wanted", "way"),
    [
        ("int", "int", How.AS_IT_IS),
        ("int", "decimal(12,2)", How.CAST),
        ("int", "decimal(11,2)", How.CHECK),
        ("bigint", "decimal(20,0)", How.CAST),
        ("int", "double", How.CAST),
        ("bigint", "double", How.CHECK),
        ("int", "float", How.CHECK),
        ("decimal(10,2)", "decimal(12,3)", How.CAST),
        ("decimal(10,2)", "decimal(11,3)", How.CAST),
        ("decimal(10,2)", "decimal(10,3)", How.CHECK),
        ("decimal(10,3)", "decimal(12,2)", None),
        ("double", "decimal(38,10)", None),
        ("decimal(3,0)", "bigint", How.CHECK),
    ],
)
def test_a_cast_that_loses_nothing_is_known(given: str, wanted: str, way: How) -> None:
    assert how(given, wanted, declared=False) is way


def test_fractions_are_rounded_but_no_whole_number_is_made_of_them() -> None:
    assert not is_exact("double", "decimal(10,2)")
    assert not is_exact("decimal(10,4)", "decimal(10,2)")
    assert not is_exact("double", "float")
    assert is_exact("double", "bigint")
    assert is_exact("bigint", "double")
    assert is_exact("timestamp", "date")

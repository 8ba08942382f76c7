"""How a merge model is written: its key, the keys of its inputs, and what is wrong with them."""

from __future__ import annotations

import pytest

from mere.names import TableName
from mere.project.kinds import Kind
from mere.project.model import Input, OnChange
from tests.project.conftest import MakeProject

FILE = "models/gold/m.sql"
PYTHON = "models/gold/m.py"


def sql(query: str, *settings: str) -> dict[str, str]:
    return {FILE: "\n".join([*(f"-- {each}" for each in ("kind: merge", *settings)), query])}


def python(inputs: str, settings: str = 'kind="merge", key=["id", "day"]') -> dict[str, str]:
    function = f"@model('gold.m', {settings})\ndef m({inputs}):\n    return a\n"
    return {PYTHON: f"from mere import changes, model, table\n\n\n{function}"}


def test_the_keys_of_the_inputs_come_from_the_query(project: MakeProject) -> None:
    query = "SELECT o.id, l.line, l.n FROM s.orders AS o JOIN s.lines AS l ON l.order_id = o.id"
    model = project(sql(query, "key: [id, line]", "latest_by: n")).model("gold.m")
    assert (model.kind, model.key, model.latest_by) == (Kind.MERGE, ("id", "line"), "n")
    # What orders do not have, lines are not read by: all lines of an order are built together.
    assert [(each.table.name, each.key, each.rowwise) for each in model.inputs] == [
        ("orders", (("id", "id"),), True),
        ("lines", (("id", "order_id"),), True),
    ]


@pytest.mark.parametrize(
    ("declared", "key"),
    [
        ("{key: [x, y]}", (("id", "x"), ("day", "y"))),
        ("{key: {day: date(y)}}", (("day", "date(y)"),)),
    ],
)
def test_what_is_declared_goes_before(project: MakeProject, declared: str, key: tuple[tuple[str, str], ...]) -> None:
    query = "SELECT id, day, count(*) AS n FROM s.t GROUP BY id, day"
    (found,) = project(sql(query, "key: [id, day]", f"inputs: {{s.t: {declared}}}")).model("gold.m").inputs
    assert found.key == key


def test_python_models_say_it_at_the_parameter(project: MakeProject) -> None:
    inputs = 'a=table("s.a", key=["x", "y"]), b=table("s.b", on_change="rebuild"), c=table("s.c", key={"id": "x"})'
    model = project(python(inputs)).model("gold.m")
    assert model.inputs == (
        Input(TableName("s", "a"), 5, key=(("id", "x"),)),
        Input(TableName("s", "b"), 5, on_change=OnChange.REBUILD),
        Input(TableName("s", "c"), 5, key=(("id", "x"),)),
    )


def test_changes_know_the_key_of_the_model_that_they_are_of(project: MakeProject) -> None:
    files = {"models/s/a.sql": "-- key: [x]\nSELECT 1 AS x", **python('a=changes("s.a"), b=changes("s.b")')}
    inputs = project(files).model("gold.m").inputs
    assert [(each.changes, each.updates_by) for each in inputs] == [(True, ("x",)), (True, ())]


def test_how_an_input_is_read_is_no_reason_to_build_a_function_again(project: MakeProject) -> None:
    codes = {
        project(python(f'a=table("s.a", {how})')).model("gold.m").code
        for how in ('key=["x", "y"]', 'key=["x", "z"]', 'key={"id": "x"}')
    }
    assert len(codes) == 1


PROBLEMS = {
    "a merge model needs a `key`": sql("SELECT id FROM s.t"),
    "it is not known which keys a change of s.t touches: `LIMIT 1` takes": sql("SELECT id FROM s.t LIMIT 1", "key: id"),
    "no column of the key is known for all of s.t, s.u": sql(
        "SELECT t.id, u.day FROM s.t CROSS JOIN s.u", "key: [id, day]"
    ),
    "a merge model needs an input that is read by its key": sql(
        "SELECT id FROM s.t", "key: id", "inputs: {s.t: {on_change: rebuild}}"
    ),
    "s.t is read by its `key`, so `on_change` has no effect": sql(
        "SELECT id FROM s.t", "key: id", "inputs: {s.t: {key: id, on_change: rebuild}}"
    ),
    "the model's key has 1 columns, and 2 are named here": sql(
        "SELECT id FROM s.t", "key: id", "inputs: {s.t: {key: [id, x]}}"
    ),
    "`dya` is not in the model's key. Did you mean day?": sql(
        "SELECT id, day FROM s.t", "key: [id, day]", "inputs: {s.t: {key: {dya: day}}}"
    ),
    "`key` of s.t has no effect: the model is append": {
        FILE: "-- kind: append\n-- key: id\n-- inputs: {s.t: {key: id, new_rows: true}}\nSELECT id FROM s.t"
    },
    "`latest_by` has no effect: the model is full": {FILE: "-- key: id\n-- latest_by: at\nSELECT id, at FROM s.t"},
    "`time` of s.t has no effect: the model is merge": sql(
        "SELECT id FROM s.t", "key: id", "inputs: {s.t: {time: at}}"
    ),
    "the model is full, which takes no `changes`": python('a=changes("s.a")', "key='id'"),
    "`changes` has one argument without a keyword: the table's name": python("a=changes()"),
    "unknown key `key`": python('a=changes("s.a", key="x")'),
    "s.v is a view: which of its rows changed cannot be known": {
        "models/s/v.sql": "-- kind: view\nSELECT 1 AS x",
        **python('a=changes("s.v")'),
    },
}


@pytest.mark.parametrize("message", PROBLEMS)
def test_what_is_wrong_is_told(project: MakeProject, message: str) -> None:
    assert message in str(project(PROBLEMS[message]).problems()[0])


def test_check_knows_the_columns_that_settings_name(project: MakeProject) -> None:
    from mere.project.check.check import check

    folder = project(sql("SELECT id, at FROM s.t", "key: id", "latest_by: att")).path
    found = [str(each.message) for each in check(folder).findings if each.rule == "unknown-column"]
    assert found == ["`latest_by` names `att`, which gold.m does not have. Did you mean at?"]

"""Spark's SQL as a tree, and the types that it has: what all translations start from."""

from __future__ import annotations

import pytest
from sqlglot import exp

from mere.sql.spark.inference import Inference
from mere.sql.spark.proven import Unlike
from mere.sql.spark.read import read
from mere.sql.spark.types import Columns


class Anything:
    """A proof of every form, which it remembers."""

    def __init__(self) -> None:
        self.forms: list[str] = []

    def type_of(self, form: str, sql: str) -> str:
        self.forms.append(form)
        return "int"


def columns_of(_: exp.Table) -> Columns:
    return [("id", "int"), ("name", "string"), ("at", "timestamp")]


def forms(sql: str) -> list[str]:
    proof = Anything()
    Inference(columns_of, proof, "Trino").query(read(sql), {})
    return proof.forms


def test_between_is_two_comparisons_and_rollup_one_function() -> None:
    assert read("select 1 from t where id between 1 and 2").sql("spark") == (
        "SELECT 1 FROM t WHERE (id >= 1 AND id <= 2)"
    )
    assert "ROLLUP (a, b)" in read("select a, b from t group by a, b with rollup").sql("spark")


def test_a_quote_in_a_text_is_a_quote() -> None:
    assert read("select 'it''s'").find(exp.Literal).name == "it's"  # type: ignore[union-attr]


def test_a_form_has_the_types_of_its_arguments() -> None:
    assert forms("select id + 1 as x, ifnull(name, '') as y, max(at) over (order by id) as z from t") == [
        "add(int, int)",
        "ifnull(string)",
        "order by int asc nulls first",
        "max(timestamp) over ordered",
    ]


def test_what_is_not_understood_names_the_engine() -> None:
    with pytest.raises(Unlike, match="is not proven to mean the same in Trino"):
        forms("select id from t tablesample (10 rows)")

"""Names and texts, whatever is in them, come back from the engine's own parser as they were."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from mere.names import TableName
from mere.sql.spelling import spark, standard

ODD = ["a", "A b", 'with "quotes"', "it's", "back`tick", "a.b", "--", "ä"]


@pytest.mark.parametrize("text", ODD)
def test_a_name_and_a_text_for_duckdb(text: str) -> None:
    found = duckdb.sql(f"SELECT {standard.literal(text)} AS {standard.quoted(text)}")
    assert (found.columns, found.fetchall()) == ([text], [(text,)])


@pytest.mark.parametrize("text", ODD)
def test_a_name_for_spark(text: str) -> None:
    (column,) = sqlglot.parse_one(f"SELECT {spark.quoted(text)}", dialect="spark").find_all(exp.Column)
    assert column.name == text


def test_the_name_of_a_table_in_a_nested_namespace_for_spark() -> None:
    assert spark.name_of(TableName("a.b", "c.d")) == "`a`.`b`.`c.d`"

"""The year in plain DuckDB: five CREATE TABLE … AS in one file."""

from __future__ import annotations

import duckdb

from bench.sides.answer import answer
from bench.sides.months import folder
from bench.sides.taxi import QUERIES, SOURCE, checked

with duckdb.connect("year.duckdb") as connection:
    connection.execute(f"CREATE SCHEMA raw; CREATE VIEW {SOURCE} AS FROM read_parquet('{folder()}/*.parquet')")
    for name, query in QUERIES.items():
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name.partition('.')[0]}; CREATE TABLE {name} AS {query}")
    answer(checked(lambda sql: connection.sql(sql).fetchall()))

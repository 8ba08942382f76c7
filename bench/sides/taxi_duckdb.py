"""The month in plain DuckDB: five CREATE TABLE … AS in one file. What the work costs where nothing is distributed."""

from __future__ import annotations

import duckdb

from bench.sides.answer import answer
from bench.sides.taxi import QUERIES, SOURCE, checked, shared

with duckdb.connect("taxi.duckdb") as connection:
    connection.execute(f"CREATE SCHEMA raw; CREATE VIEW {SOURCE} AS FROM read_parquet('{shared('trips.parquet')}')")
    for name, query in QUERIES.items():
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name.partition('.')[0]}; CREATE TABLE {name} AS {query}")
    answer(checked(lambda sql: connection.sql(sql).fetchall()))

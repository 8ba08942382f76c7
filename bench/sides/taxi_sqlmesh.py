"""The month as a SQLMesh project: python taxi_sqlmesh.py duckdb|spark. Its state is in a DuckDB file of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.sides.answer import answer
from bench.sides.spark_catalog import CATALOG_CONF, register_source, session, spark_rows
from bench.sides.taxi import QUERIES, SOURCE, checked, shared


def connection(adapter: str) -> dict[str, Any]:
    return (
        {"type": "duckdb", "database": "taxi.duckdb"}
        if adapter == "duckdb"
        else {"type": "spark", "catalog": "main", "config": CATALOG_CONF}
    )


def write_project(adapter: str) -> None:
    state = {"type": "duckdb", "database": "state.duckdb"}
    config = {
        "gateways": {"here": {"connection": connection(adapter), "state_connection": state}},
        "default_gateway": "here",
        "model_defaults": {"dialect": adapter, "start": "2024-01-01"},
        "disable_anonymized_analytics": True,
    }
    # JSON is YAML.
    Path("config.yaml").write_text(json.dumps(config), encoding="utf-8")
    Path("models").mkdir()
    for name, query in QUERIES.items():
        head = f"MODEL (name {name}, kind FULL{', storage_format iceberg' if adapter == 'spark' else ''});"
        Path("models", f"{name.replace('.', '_')}.sql").write_text(f"{head}\n{query}\n", encoding="utf-8")


def build() -> None:
    from sqlmesh import Context

    context = Context(paths=["."])
    context.plan(auto_apply=True, no_prompts=True)
    context.close()


def main(adapter: str) -> None:
    write_project(adapter)
    if adapter == "spark":
        register_source()
        build()
        answer(checked(spark_rows))
        session().stop()
        return
    import duckdb

    with duckdb.connect("taxi.duckdb") as database:
        database.execute(f"CREATE SCHEMA raw; CREATE VIEW {SOURCE} AS FROM read_parquet('{shared('trips.parquet')}')")
    build()
    with duckdb.connect("taxi.duckdb") as database:
        answer(checked(lambda sql: database.sql(sql).fetchall()))


main(sys.argv[1])

"""The month, or other files, as a dbt project: python taxi_dbt.py duckdb|spark [FILES]."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from bench.sides.answer import answer
from bench.sides.spark_catalog import CATALOG_CONF, register_source, spark_rows
from bench.sides.taxi import QUERIES, SOURCE, checked, shared

# dbt would prefix the schemas with the profile's.
SCHEMA_MACRO = "{% macro generate_schema_name(name, node) %}{{ name or target.schema }}{% endmacro %}\n"


def profile(adapter: str) -> dict[str, Any]:
    if adapter == "duckdb":
        return {"type": "duckdb", "path": "taxi.duckdb"}
    return {
        "type": "spark",
        "method": "session",
        "host": "none",
        "schema": "raw",
        "server_side_parameters": CATALOG_CONF,
    }


def write_project(adapter: str) -> None:
    target = {"target": "here", "outputs": {"here": profile(adapter)}}
    # JSON is YAML.
    Path("profiles.yml").write_text(json.dumps({"taxi": target}), encoding="utf-8")
    about = {"name": "taxi", "profile": "taxi", "model-paths": ["models"], "macro-paths": ["macros"]}
    Path("dbt_project.yml").write_text(json.dumps(about), encoding="utf-8")
    for folder in ("models", "macros"):
        Path(folder).mkdir()
    Path("macros", "schema.sql").write_text(SCHEMA_MACRO, encoding="utf-8")
    for name, query in QUERIES.items():
        schema, _, table = name.partition(".")
        settings = {"materialized": "table", "schema": schema, "alias": table}
        if adapter == "spark":
            settings["file_format"] = "iceberg"
        text = re.sub(r"(bronze|silver)\.trips", r"{{ ref('\1_trips') }}", query)
        Path("models", f"{schema}_{table}.sql").write_text(
            f"{{{{ config(**{settings!r}) }}}}\n{text}\n", encoding="utf-8"
        )


def build() -> None:
    from dbt.cli.main import dbtRunner

    done = dbtRunner().invoke(["--no-send-anonymous-usage-stats", "run", "--profiles-dir", ".", "--project-dir", "."])
    if not done.success:
        sys.exit(f"dbt failed: {done.exception}")


def main(adapter: str, files: str = "trips.parquet") -> None:
    write_project(adapter)
    if adapter == "spark":
        register_source()
        build()
        answer(checked(spark_rows))
        return
    import duckdb

    with duckdb.connect("taxi.duckdb") as connection:
        connection.execute(f"CREATE SCHEMA raw; CREATE VIEW {SOURCE} AS FROM read_parquet('{shared(files)}')")
    build()
    with duckdb.connect("taxi.duckdb") as connection:
        answer(checked(lambda sql: connection.sql(sql).fetchall()))


main(*sys.argv[1:])

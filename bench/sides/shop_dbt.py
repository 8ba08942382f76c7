"""The shop by dbt-duckdb: all of it with its tests, and one model after an edit. Each is a command of its own."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from bench.sides.answer import answer
from bench.sides.shop import EDITED, MODELS, UNIQUE, VALUES, counts, edited, median_of, models, timed, write_orders

# dbt would prefix the schemas with the profile's.
SCHEMA_MACRO = "{% macro generate_schema_name(name, node) %}{{ name or target.schema }}{% endmacro %}\n"
DBT = [str(Path(sys.executable).with_name("dbt")), "--no-send-anonymous-usage-stats", "build", "--profiles-dir", "."]


def write(schema: str, table: str, query: str) -> None:
    settings = {"materialized": "table", "schema": schema, "alias": table}
    text = query.replace("raw.orders", "{{ ref('orders') }}")
    text = re.sub(r"\b(bronze|silver|gold)\.(\w+)", r"{{ ref('\1_\2') }}", text)
    Path("models", f"{schema}_{table}.sql").write_text(f"{{{{ config(**{settings!r}) }}}}\n{text}\n", encoding="utf-8")


def tests(name: str) -> dict[str, Any]:
    columns: dict[str, list[Any]] = {UNIQUE[name]: ["unique", "not_null"]}
    if name in VALUES:
        restricted, values = VALUES[name]
        columns.setdefault(restricted, []).append({"accepted_values": {"values": list(values)}})
    listed = [{"name": column, "data_tests": checks} for column, checks in columns.items()]
    return {"name": name.replace(".", "_"), "columns": listed}


def edit(number: int) -> float:
    schema, _, table = EDITED.partition(".")
    write(schema, table, edited(number + 1))
    return timed([*DBT, "--select", f"{schema}_{table}"])


for folder in ("models", "macros", "seeds"):
    Path(folder).mkdir()
# JSON is YAML.
target = {"target": "here", "outputs": {"here": {"type": "duckdb", "path": "shop.duckdb", "threads": 4}}}
Path("profiles.yml").write_text(json.dumps({"shop": target}), encoding="utf-8")
about = {"name": "shop", "profile": "shop", "seeds": {"shop": {"+schema": "raw"}}}
Path("dbt_project.yml").write_text(json.dumps(about), encoding="utf-8")
Path("macros", "schema.sql").write_text(SCHEMA_MACRO, encoding="utf-8")
Path("models", "tests.yml").write_text(json.dumps({"models": [tests(name) for name in MODELS]}), encoding="utf-8")
write_orders(Path("seeds", "orders.csv"))
for each in models():
    write(*each)
timed(DBT)
whole = median_of(5, lambda _: timed(DBT))
one = median_of(5, edit)
import duckdb  # noqa: E402

with duckdb.connect("shop.duckdb") as connection:
    found = {name: [list(row) for row in connection.sql(counts(name)).fetchall()] for name in MODELS}
answer(found, whole=whole, edited=one)

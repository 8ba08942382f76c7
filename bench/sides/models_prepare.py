"""A project of many models on a lake where all of them are built: BENCH_SHARED/models_<N>.

To build a thousand tables with Spark would take an hour, so there is only metadata: as mere leaves it, signed by the
code that signs after a build, and with a few snapshots each. A plan with nothing to do reads no more than that.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import uuid
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from bench.sides.answer import answer
from bench.sides.metadata import write_metadata
from mere.lake.lake import Lake
from mere.names import TableName
from mere.pipeline.plan.facts import facts
from mere.pipeline.plan.kinds.inputs import points_of
from mere.pipeline.plan.outcome import built
from mere.pipeline.plan.plan import plan
from mere.pipeline.plan.steps import Action, Step
from mere.pipeline.state.state import PROPERTY
from mere.project.graph import Graph
from mere.project.kinds import Kind
from mere.project.load import load
from mere.project.model import Model, Sql
from mere.windows import NEVER, Spans, instant

SNAPSHOTS, ROWS = 5, 100_000
BUILT = Spans.from_json([["2024-01-01", "2026-01-01"]])
INSERT = "INSERT INTO iceberg_tables VALUES ('main', ?, ?, ?, NULL, ?)"

SEED = "id,name\n1,Ljubljana\n2,Maribor\n"
BRONZE = """\
-- description: Orders of shop {number}, as they came.
-- columns: {{id: the order, ordered_at: when it was made}}
-- audits:
--   - not_null: [id]
SELECT id, CAST(name AS timestamp) AS ordered_at, length(name) AS amount
FROM raw.cities_{seed}
"""
SILVER = """\
-- kind: incremental
-- description: Orders of shop {number}, typed.
-- time_column: ordered_at
-- grain: day
-- key: id
-- inputs:
--   raw.cities_{seed}: {{on_change: ignore}}
-- audits:
--   - unique: id
--   - not_null: [id, amount]
--   - assert: amount > 0
SELECT o.id, o.ordered_at, o.amount, c.name AS city
FROM bronze.orders_{left} AS o
JOIN raw.cities_{seed} AS c ON c.id = o.id
WHERE o.ordered_at >= :start AND o.ordered_at < :end
"""
EVENTS = """\
-- kind: append
-- description: What happened to the orders of shop {left}.
SELECT id, ordered_at, amount FROM bronze.orders_{left}
"""
VIEW = """\
-- kind: view
-- description: The orders of two shops.
SELECT id, amount FROM silver.orders_{left} UNION ALL SELECT id, amount FROM silver.orders_{right}
"""
GOLD = """\
-- description: Revenue of three shops.
-- audits:
--   - assert: revenue >= 0
SELECT l.id, sum(l.amount + r.amount) AS revenue
FROM silver.orders_{left} AS l JOIN silver.orders_{right} AS r USING (id)
GROUP BY l.id
"""
PYTHON = """\
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mere import model, table


@model("gold.cities_{number}", description="Orders a city.", audits=[{{"unique": "city"}}])
def cities(orders: DataFrame = table("silver.orders_{left}")) -> DataFrame:
    return orders.groupBy("city").agg(F.count("*").alias("orders"))
"""
# Of every twenty models, in this order; what a model reads is among those before it, in this group or an earlier one.
LAYERS = (
    *(("seeds/raw/cities_{number}.csv", SEED),) * 1,
    *(("models/bronze/orders_{number}.sql", BRONZE),) * 5,
    *(("models/silver/orders_{number}.sql", SILVER),) * 6,
    *(("models/silver/events_{number}.sql", EVENTS),) * 1,
    *(("models/gold/all_{number}.sql", VIEW),) * 2,
    *(("models/gold/revenue_{number}.sql", GOLD),) * 3,
    *(("models/gold/cities_{number}.py", PYTHON),) * 2,
)


def write_project(folder: Path, models: int) -> None:
    (folder / "mere.yaml").write_text("name: many\n", encoding="utf-8")
    group = len(LAYERS)
    for number in range(models):
        path, text = LAYERS[number % group]
        first = number - number % group  # the seed of the group, followed by five bronze and six silver models
        below = first + (6 if "/gold/" in path else 1)
        names = {"number": number, "seed": first, "left": below + number % 5, "right": below + (number + 1) % 5}
        file = folder / path.format(**names)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.format(**names) if "{" in text else text, encoding="utf-8")


def write_view(location: Path, sql: str) -> str:
    version = {
        "version-id": 1,
        "timestamp-ms": 1_700_000_000_000,
        "schema-id": 0,
        "summary": {"engine-name": "spark"},
        "default-namespace": [],
        "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
    }
    raw = {
        "view-uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, location.name)),
        "format-version": 1,
        "location": str(location),
        "properties": {},
        "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
        "current-version-id": 1,
        "versions": [version],
        "version-log": [],
    }
    path = location / "metadata" / "00000-view.metadata.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(raw), encoding="utf-8")
    return str(path)


def register(lake: Lake, graph: Graph) -> None:
    """Write metadata and pointers, as an engine does."""
    rows = []
    for name, model in graph.models.items():
        location = Path(lake.warehouse, name.namespace, name.name)
        if model.kind is Kind.VIEW:
            assert isinstance(model.body, Sql)
            rows.append((name.namespace, name.name, write_view(location, model.body.text), "VIEW"))
        else:
            rows.append((name.namespace, name.name, write_metadata(location, 0, SNAPSHOTS, ROWS), "TABLE"))
    with closing(sqlite3.connect(lake.root / "catalog.db", timeout=30)) as connection, connection:
        connection.executemany(INSERT, rows)


def sign(lake: Lake, graph: Graph, now: datetime) -> None:
    known = facts(lake, "main", now)

    def signed(model: Model) -> str:
        step = Step(model, Action.BUILD, (), BUILT if model.time else NEVER, afresh=True)
        state = built(step, None, points_of(model, known), "0123456789ab", now)
        return replace(state, snapshot=1 if model.kind is Kind.VIEW else SNAPSHOTS).to_json()

    properties: dict[str | TableName, dict[str, str | None]] = {
        name: {PROPERTY: signed(model)} for name, model in graph.models.items()
    }
    lake.set_properties(properties)


def main(models: int) -> None:
    folder = Path(os.environ["BENCH_SHARED"], f"models_{models}")
    folder.mkdir()
    write_project(folder, models)
    now = instant("2026-01-01").astimezone(UTC)
    graph = load(folder)
    with Lake.create(folder / "lake") as lake:
        register(lake, graph)
        sign(lake, graph, now)
        due = plan(graph, facts(lake, "main", now))
    if len(due.steps) != models or any(step.action is not Action.SKIP for step in due.steps):
        sys.exit(f"not all of {models} models are up to date: {[step.reasons for step in due.steps][:5]}")
    print(f"{folder.name}: {models} models")


for count in sys.argv[1:]:
    main(int(count))
answer(sys.argv[1:])

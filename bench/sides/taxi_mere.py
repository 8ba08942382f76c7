"""The month through bronze, silver and gold by `mere run`: on a branch, with state and audits, published at once."""

from __future__ import annotations

from pathlib import Path

from bench.sides.answer import answer
from bench.sides.taxi import QUERIES
from bench.sides.taxi_lake import lake_of_the_month, result
from mere.cli import main

SETTINGS = {
    "bronze.trips": "audits: [{not_null: [picked_up_at]}]",
    "silver.trips": """\
kind: incremental
time_column: picked_up_at
grain: month
audits:
  - not_null: [picked_up_at, fare]
  - assert: total >= 0
  - accepted_values: {column: vendor_id, values: [1, 2]}""",
    "gold.daily": "audits: [{unique: [day, payment]}, {assert: revenue >= 0}]",
    "gold.zones": "audits: [{unique: [from_zone, to_zone]}]",
    "gold.hours": "audits: [{unique: [hour, from_zone]}]",
}
WINDOW = " AND picked_up_at >= :start AND picked_up_at < :end"

Path("mere.yaml").write_text("name: taxi\n", encoding="utf-8")
for name, query in QUERIES.items():
    file = Path("models", *name.split(".")).with_suffix(".sql")
    file.parent.mkdir(parents=True, exist_ok=True)
    settings = "".join(f"-- {line}\n" for line in SETTINGS[name].splitlines())
    file.write_text(settings + query + (WINDOW if name == "silver.trips" else "") + "\n", encoding="utf-8")
with lake_of_the_month() as lake:
    main(["run"], standalone_mode=False)
    answer(result(lake))

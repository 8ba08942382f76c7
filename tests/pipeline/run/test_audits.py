"""Audits of a run, whoever asks them: DuckDB where every engine understands them alike, else Spark."""

from __future__ import annotations

import pytest

from mere.pipeline.build import model as build
from tests.pipeline.conftest import MakeShop
from tests.pipeline.shop import FIRST

# Time columns of each type, and a rule of each engine.
MODELS = {
    f"models/gold/{name}.sql": f"""
    -- kind: incremental
    -- time_column: seen
    -- grain: day
    -- audits:
    --   - accepted_values: {{column: city_id, values: [1, 2, 3]}}
    --   - not_null: [id]
    --   - assert: city_id < 4
    SELECT id, city_id, CAST(at AS {kind}) AS seen
    FROM landing.events
    WHERE at >= :start AND at < :end
"""
    for name, kind in (("dates", "date"), ("instants", "timestamp"), ("clocks", "timestamp_ntz"))
}


def test_an_audit_that_is_new_is_asked_of_all_rows_and_nothing_is_built(shop: MakeShop) -> None:
    it = shop({name: text for name, text in MODELS.items() if "dates" in name})
    it.write({"models/gold/reader.sql": "SELECT count(*) AS rows FROM gold.dates"})
    it.land(*FIRST)
    it("run")
    assert it.plan() == {}
    it.replace("models/gold/dates.sql", "assert: city_id < 4", "assert: city_id < 5")
    assert {name: step["reasons"] for name, step in it.plan().items()} == {
        "gold.dates": ["new audit: assert(city_id < 5)"]
    }
    before = it.lake.at("main").metadata("gold.dates").current_id
    assert it.built() == {"gold.dates"}
    assert (it.plan(), it.lake.at("main").metadata("gold.dates").current_id) == ({}, before)
    it.land((6, 1, "2024-02-09T05:00", 1))
    it.replace("models/gold/dates.sql", "assert: city_id < 5", "assert: city_id < 3")
    _, said = it.failed_run()
    assert "assert(city_id < 3)" in said  # of windows that were built before, not only of the one that is due
    it.replace("models/gold/dates.sql", "assert: city_id < 3", "assert: city_id < 6")
    it("run")
    assert it.plan() == {}


@pytest.mark.parametrize("largest", [build._LOCAL, 0], ids=["DuckDB and Spark", "Spark alone"])
def test_audits_look_at_the_windows_that_were_built_and_say_the_same(
    largest: int, shop: MakeShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_LOCAL", largest)
    it = shop(MODELS)
    it.land(*FIRST)
    it("run")
    it.land((6, 9, "2024-02-02T05:00", 1), (7, 2, "2024-02-02T06:00", 1))
    run, _ = it.failed_run()
    for model in ("gold.dates", "gold.instants", "gold.clocks"):
        accepted, known, asserted = it.runs()[0]["models"][model]["audits"]
        for bad in (accepted, asserted):
            assert (bad["state"], bad["bad"], bad["checked"]) == ("failed", 1, 3)
            assert [row["id"] for row in bad["sample"]] == [6]
        assert (known["state"], known["checked"]) == ("ok", 3)
    it.replace("models/gold/dates.sql", "assert: city_id < 4", "assert: city_id < 10")
    it.replace("models/gold/dates.sql", "[1, 2, 3]", "[1, 2, 3, 9]")
    assert it.built("--resume", run, "gold.dates") == {"gold.dates"}

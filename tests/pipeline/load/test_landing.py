"""Files of sources are kept as they came, and loaded again when they are gone from their place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from mere.lake.upkeep.gc import Kept, Landed, sweep
from tests.pipeline.load.test_load import put
from tests.pipeline.plan.test_remedies import FILES
from tests.pipeline.shop import Shop


def test_what_is_gone_is_loaded_from_the_landing_and_goes_when_its_time_is_over(tmp_path: Path, warm_jvm: None) -> None:
    shop = Shop(tmp_path / "shop", FILES)
    with (shop.folder / "mere.yaml").open("a") as file:
        file.write("    landing: {files: raw, keep: 30d}\n")
    put(shop, "1", "1,Oslo\n2,Bern", header="id,city")
    put(shop, "2", "3,Rome", header="id,city")
    shop("run", "bronze.f")
    kept = sorted(path.relative_to(shop.folder / "raw").parts[:3] for path in (shop.folder / "raw").rglob("*.csv"))
    assert kept == [("bronze", "f", "all")] * 2

    for path in shop.folder.rglob("*.csv"):
        if "raw" not in path.parts:
            path.unlink()
    put(shop, "3", "4,Graz", header="id,city")
    said = shop("plan", "--full-refresh", "bronze.f", "bronze.f").stdout
    assert "2 files that were loaded are gone, and they are loaded from the landing" in said
    shop("run", "--full-refresh", "bronze.f", "bronze.f")
    assert sorted(shop.rows("select id from bronze.f")) == [(1,), (2,), (3,), (4,)]

    landed, now = Landed(str(shop.folder / "raw"), timedelta(days=30)), datetime.now(UTC)
    assert sweep(shop.lake, landed=landed, now=now).kept[Kept.LANDED] == 3
    later = now + timedelta(days=31)
    assert len([each for each in sweep(shop.lake, landed=landed, now=later).doomed if "/raw/" in each.location]) == 3
    assert not sweep(shop.lake, landed=landed, now=later + timedelta(hours=1)).deleted
    gone = sweep(shop.lake, landed=landed, now=later + timedelta(days=2)).deleted
    assert len([each for each in gone if "/raw/" in each.location]) == 3
    assert not list((shop.folder / "raw").rglob("*.csv"))
    shop.lake.close()

"""One warm engine does two hundred runs, and the last ones cost no more than the first."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median

import psutil
import pytest

from mere.engine.warm import engine as warm
from mere.engine.warm.discovery import Engine
from tests.pipeline.shop import FIRST, WHOLE, Shop

RUNS = 200


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_last_of_many_runs_costs_no_more_than_the_first(tmp_path: Path, no_jvm_here: None) -> None:
    shop = Shop(tmp_path / "shop", WHOLE)
    with (shop.folder / "mere.yaml").open("a") as file:
        file.write("    spark: {memory: 1g, keep_warm: 30m}\n")
    shop.land(*FIRST)
    took: list[float] = []  # of the processors: what else the machine does is not in it
    spent: dict[int, float] = {}
    engines: list[Engine] = []
    try:
        for number in range(RUNS):
            at = datetime(2024, 3, 1) + timedelta(hours=number)
            shop.land((100 + number, 1 + number % 3, at.isoformat(timespec="minutes"), 1))
            begun = time.process_time()
            assert "Spark: the warm engine" in shop("run").stdout
            took.append(time.process_time() - begun)
            engine = warm.running(shop.lake.location)
            assert engine is not None
            so_far = _processor_seconds(engine.pid)
            took[-1] += so_far - spent.get(engine.pid, 0.0)
            spent[engine.pid] = so_far
            engines.append(engine)
        assert len({engine.pid for engine in engines}) == 1
        health = warm.health(shop.lake.location, engines[0])
        print(f"{median(took[20:40]):.2f} s, then {median(took[-20:]):.2f} s; {health.pulse}")
        assert median(took[-20:]) < 1.3 * median(took[20:40])
    finally:
        warm.stop(shop.lake.location, now=True)
        shop.lake.close()


def _processor_seconds(pid: int) -> float:
    """Of a process and all that it has started."""
    engine = psutil.Process(pid)
    times = [each.cpu_times() for each in (engine, *engine.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))

"""One month more is built on a history of so many months: python history_mere.py MONTHS.

Each time on a new branch, so that the history stays as it was.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from pathlib import Path

import mere
from bench.sides.answer import answer
from bench.sides.history import start_of
from bench.sides.taxi import shared
from mere.cli import main


def sizes(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


months = int(sys.argv[1])
folder = shared(f"history_{months}")
os.chdir(folder)
with mere.Lake.open(folder / "lake") as lake:
    branch = lake.branch(f"bench-{secrets.token_hex(4)}", at="one-more").name
    warehouse = Path(lake.warehouse)
    before = sizes(warehouse)
    started = time.perf_counter()
    main(["run", "--on", branch], standalone_mode=False)
    seconds = time.perf_counter() - started
    written = {path: size for path, size in sizes(warehouse).items() if path not in before}
    (done,) = lake.runs(1)
    models = done.about["models"]
    days = f"day >= DATE '{start_of(months)}'"
    with lake.sql(f"SELECT count(DISTINCT day), count(DISTINCT payment) FROM gold.daily WHERE {days}", branch) as found:
        counts = list(found)
metadata = sum(size for path, size in written.items() if path.parent.name == "metadata")
answer(
    [sorted(models), counts],
    run=seconds,
    models=sum(model["seconds"] for model in models.values()),
    data_written_bytes=sum(written.values()) - metadata,
    metadata_written_bytes=metadata,
    data_read_bytes=sum(model["bytes"] for model in models.values()),
)

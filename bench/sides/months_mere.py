"""The year by mere: a source loads the files, a snapshot a month, then silver and gold are built. In a JVM that has
done it before, for a part of the year: `load` and `build` are the two commands."""

from __future__ import annotations

import os
import time
from pathlib import Path

import mere
from bench.sides.answer import answer
from bench.sides.months import BRONZE, MODELS, MONTHS, file, folder
from bench.sides.taxi_lake import result
from mere.cli import main

SOURCE = "files: {folder}/trips_{{year}}-{{month}}.parquet\npath_columns: false\nsnapshots: each\n"
SOURCE += "audits: [{{not_null: picked_up_at}}]\n"
WINDOW = " AND picked_up_at >= :start AND picked_up_at < :end"
SILVER = "-- kind: incremental\n-- time_column: picked_up_at\n-- grain: month\n-- audits: [{assert: total >= 0}]\n"


def project(where: Path, files: Path) -> None:
    texts = {"mere.yaml": "name: months\n", "sources/bronze/trips.yaml": SOURCE.format(folder=files)}
    for name, query in MODELS.items():
        silver = name == "silver.trips"
        texts[f"models/{name.replace('.', '/')}.sql"] = (SILVER + query + WINDOW if silver else query) + "\n"
    for name, text in texts.items():
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        (where / name).write_text(text, encoding="utf-8")


def timed(*command: str) -> float:
    started = time.perf_counter()
    main(list(command), standalone_mode=False)
    return time.perf_counter() - started


home = Path.cwd()
warm_up = home / "some"
warm_up.mkdir()
for month in MONTHS[:3]:
    (warm_up / file(month).name).symlink_to(file(month))
project(home / "first", warm_up)
project(home / "second", folder())
with mere.Lake.create(home / "first" / "lake") as some, mere.session(some, "main"):
    os.chdir(home / "first")
    timed("run")
    os.chdir(home / "second")
    with mere.Lake.create(home / "second" / "lake") as lake:
        load = timed("run", BRONZE)
        build = timed("run")
        answer(result(lake), load=load, build=build)

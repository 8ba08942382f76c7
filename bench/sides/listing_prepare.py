"""A project whose source has loaded 10,000 small files, and one more file that it has not: BENCH_SHARED/listing."""

from __future__ import annotations

import os

import mere
from bench.sides.answer import answer, sized
from bench.sides.taxi import shared
from mere.cli import main

FILES = sized(10_000)

folder = shared("listing")
(folder / "data").mkdir(parents=True)
(folder / "sources" / "bronze").mkdir(parents=True)
(folder / "mere.yaml").write_text("name: listing\n", encoding="utf-8")
(folder / "sources" / "bronze" / "events.yaml").write_text(
    "files: data/*.csv\ncolumns: {id: bigint, note: string}\nbatch: 20000\n", encoding="utf-8"
)
for number in range(FILES):
    (folder / "data" / f"{number:05}.csv").write_text(f"id,note\n{number},a\n", encoding="utf-8")
os.chdir(folder)
with mere.Lake.create(folder / "lake"):
    main(["run"], standalone_mode=False)
(folder / "data" / "new.csv").write_text("id,note\n1,a\n", encoding="utf-8")
answer(FILES)

"""The example `taxi` by `mere run`: two sources, six tables, audits, one commit."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import mere
from bench.sides.answer import answer
from bench.sides.taxi_files import checked, folder
from mere.cli import main

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "taxi"

shutil.copytree(EXAMPLE, "taxi")
os.chdir("taxi")
Path("data").symlink_to(folder(), target_is_directory=True)
with mere.Lake.create("lake") as lake:
    main(["run"], standalone_mode=False)

    def rows(query: str) -> list[object]:
        with lake.sql(query) as found:
            return list(found)

    answer(checked(rows))

"""Unit tests of models, where the project's lake is and where it is not."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

from mere.api.place import Address
from mere.api.test import lake_or_empty
from mere.lake.lake import Lake
from mere.sparkconfig import SparkSettings


def test_no_engine_is_kept_warm_for_a_lake_that_is_thrown_away(tmp_path: Path) -> None:
    kept = SparkSettings(keep_warm=timedelta(minutes=5))
    Lake.create(tmp_path / "lake").close()
    for name, spark, why in (("lake", kept, None), ("none", SparkSettings(), "There is no lake")):
        with ExitStack() as stack:
            lake, found, without = lake_or_empty(stack, Address(str(tmp_path / name)).open, kept)
            stack.callback(lake.close)
            assert (lake.location == str(tmp_path / name), found) == (spark == kept, spark)
            assert (without or "").startswith(why or "")
            assert Path(lake.location).exists()

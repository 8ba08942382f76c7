"""What a function of a project may return."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mere import Lake
from mere.errors import RunFailed
from mere.pipeline.write.returned import checked
from tests.conftest import OpenSession

PLACE = "models/gold/days.py:7"


@pytest.fixture
def spark(spark_on: OpenSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with Lake.create(tmp_path_factory.mktemp("lake") / "lake") as lake:
        yield spark_on(lake, "main").spark


@pytest.mark.parametrize(
    ("made", "kind", "remedy"),
    [
        (pandas.DataFrame({"a": [1]}), "a DataFrame of pandas", "spark.createDataFrame"),
        (pa.table({"a": [1]}), "a Table of pyarrow", "spark.createDataFrame"),
        ([(1, 2)], "list", "spark.createDataFrame"),
        (None, "None", "End the function with `return`"),
    ],
)
def test_what_is_no_frame_of_spark_is_told_with_its_place(
    spark: SparkSession, made: Any, kind: str, remedy: str
) -> None:
    with pytest.raises(RunFailed) as refused:
        checked(made, "days", PLACE, spark)
    assert refused.value.message == f"{PLACE}: days must return a DataFrame of Spark, not {kind}."
    assert remedy in str(refused.value.remedy)


def test_columns_and_groups_are_not_frames(spark: SparkSession) -> None:
    frame = spark.range(2)
    assert checked(frame, "days", PLACE, spark) is frame
    for made, remedy in ((frame["id"], "frame.select"), (frame.groupBy("id"), "groups.agg")):
        with pytest.raises(RunFailed) as refused:
            checked(made, "days", PLACE, spark)
        assert "of pyspark" in refused.value.message
        assert remedy in str(refused.value.remedy)


def test_a_frame_of_another_kind_of_session_is_refused(spark: SparkSession) -> None:
    """As a model gets that keeps a session of its own, when the run is on a warm engine."""
    another: Any = object()
    with pytest.raises(RunFailed, match="of another Spark session"):
        checked(spark.range(2), "days", PLACE, another)

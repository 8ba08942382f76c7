"""What a Python model returned: a DataFrame of the session that it was given, or an error that says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mere.errors import RunFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MAKE_FRAME = "Give the function a parameter `spark`, and return spark.createDataFrame(…)."
_REMEDIES = {
    "NoneType": "End the function with `return` and the frame.",
    "Column": "Return a frame with that column: frame.select(column).",
    "GroupedData": "Return an aggregate of the groups: groups.agg(…), groups.count().",
}


def checked(made: Any, function: str, place: str, spark: SparkSession) -> DataFrame:
    from pyspark.sql import DataFrame

    if not isinstance(made, DataFrame):
        kind = _name(made)
        raise RunFailed(
            f"{place}: {function} must return a DataFrame of Spark, not {kind}.",
            remedy=_REMEDIES.get(type(made).__name__, _MAKE_FRAME),
        )
    if type(made.sparkSession) is not type(spark):
        raise RunFailed(
            f"{place}: {function} returned a DataFrame of another Spark session than the one that the run uses.",
            remedy="Build it from the parameters, or with a parameter `spark`; do not keep or start sessions in a"
            " model.",
        )
    return made


def _name(made: Any) -> str:
    """Other libraries call theirs DataFrame, too."""
    if made is None:
        return "None"
    library = type(made).__module__.partition(".")[0]
    return type(made).__name__ if library == "builtins" else f"a {type(made).__name__} of {library}"

"""Compares a model's contract with what its query returns, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mere.errors import RunFailed
from mere.names import near
from mere.pipeline.state.columns import Column, differ, of_query
from mere.project.model import Model

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check(model: Model, given: Sequence[Column], spark: SparkSession) -> None:
    """Exactly the columns and types of the contract, in any order. That a column is never null, the table sees to."""
    if not model.contract:
        return
    promises = {name: each.type for name, each in model.contract.items()}
    promised = {each.name.casefold(): each for each in typed(promises, spark)}
    own = {name.casefold() for name in model.added_columns}
    found = {each.name.casefold(): each for each in given if each.name.casefold() not in own}
    wrong = []
    for folded, column in promised.items():
        if folded not in found:
            hint = near(column.name, [each.name for each in found.values()])
            wrong.append(f"{column.name}: promised, but missing from the query.{hint}")
        elif differ(found[folded].type, column.type):
            wrong.append(f"{column.name}: promised as {column.type}, but the query gives {found[folded].type}")
    wrong += [
        f"{each.name}: in the query, but not promised" for folded, each in found.items() if folded not in promised
    ]
    if wrong:
        raise RunFailed(
            "\n  ".join([f"{model.file}: {model} breaks its contract. Nothing was written.", *wrong]),
            remedy="Fix the query (CAST(column AS type) AS column), or the contract.",
        )


def typed(types: Mapping[str, str], spark: SparkSession) -> tuple[Column, ...]:
    """Spark's own reading of the types, so that `integer` is `int` and a struct is compared field by field."""
    casts = (f"CAST(NULL AS {kind}) AS `{name}`" for name, kind in types.items())
    return of_query(spark.sql(f"SELECT {', '.join(casts)}").schema.jsonValue())


def required(model: Model) -> list[str]:
    return [name for name, each in model.contract.items() if not each.nullable]


def allows_null(model: Model, column: str) -> bool:
    """Whether the contract says so; without one, it is not ours to say."""
    promise = next((each for name, each in model.contract.items() if name.casefold() == column.casefold()), None)
    return promise is not None and promise.nullable

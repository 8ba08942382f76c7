"""Converts Arrow tables to pandas and Polars.

Types that plotting libraries handle badly are converted: decimals become floats, and dates become times in pandas. Use
the Arrow table for decimals to the last digit.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mere.errors import QueryError
from mere.installing import pip_install

if TYPE_CHECKING:
    import pyarrow as pa


def polars(table: pa.Table) -> Any:
    """A polars.DataFrame; Polars must be installed."""
    return _installed("polars", "Polars").from_arrow(_with_numbers(table))


def pandas(table: pa.Table) -> Any:
    """A pandas.DataFrame; pandas must be installed."""
    _installed("pandas", "pandas")
    return _with_numbers(table).to_pandas(date_as_object=False)


def _with_numbers(table: pa.Table) -> pa.Table:
    """With decimals as floats; sums of whole numbers, which are as wide as decimals, as whole numbers if they fit."""
    import pyarrow as pa

    for at, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type):
            table = table.set_column(at, field.name, _number(table.column(at), field.type.scale))
    return table


def _number(column: pa.ChunkedArray, scale: int) -> pa.ChunkedArray:
    import pyarrow as pa

    if scale == 0:
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:  # out of its range
            pass
    return column.cast(pa.float64())


def _installed(module: str, name: str) -> ModuleType:
    """mere does not depend on it: whoever wants a frame of it has it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise QueryError(f"{name} is not installed.", remedy=f"Install it: {pip_install(module)}") from error

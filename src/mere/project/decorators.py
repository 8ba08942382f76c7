"""What a PySpark model is written with. A plan reads them in the syntax tree; when the code runs, they do nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


def model(
    name: str,
    *,
    kind: str = "full",
    description: str = "",
    columns: Mapping[str, str] | None = None,
    tags: Sequence[str] = (),
    time_column: str | None = None,
    grain: str = "day",
    start: str | None = None,
    unfinished: str = "build",
    batch: int | None = None,
    key: str | Sequence[str] = (),
    partition_by: str | Sequence[str] = (),
    sort_by: str | Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    audits: Sequence[Mapping[str, Any]] = (),
    now: str | None = None,
    off: Mapping[str, str] | None = None,
) -> Callable[[_Function], _Function]:
    """A function of DataFrames that makes the table `name`. All arguments have to be literals.

    The function stays what it is, so that a test can call it with DataFrames of its own.
    """
    del name, kind, description, columns, tags, time_column, grain, start, unfinished, batch
    del key, partition_by, sort_by, properties, audits, now, off
    return lambda function: function


def table(name: str, *, time: str | None = None, on_change: str | None = None, new_rows: bool = False) -> Any:
    """The default of a parameter that gets a table's rows.

    `time`: the column by which mere cuts them to the window that is built. `on_change`: for a table that is read whole,
    whether a change of it means to `rebuild` all windows or to `ignore` it. `new_rows`: an append model takes only the
    rows that were added.
    """
    del time, on_change, new_rows
    return _Unfilled(name)


class _Unfilled:
    """Stands for a table until mere, or a test, gives a DataFrame in its place."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        raise AttributeError(
            f"{attribute!r} of table({self._name!r}): outside of a run there are no rows."
            " Call the function with a DataFrame."
        )

    def __repr__(self) -> str:
        return f"table({self._name!r})"

"""The decorators of PySpark models. A plan reads them from the syntax tree; at run time they do nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


def model(
    name: str,
    *,
    kind: str = "full",
    description: str = "",
    columns: Mapping[str, str | Mapping[str, str]] | None = None,
    contract: Mapping[str, str | Mapping[str, Any]] | None = None,
    owner: str | None = None,
    tags: Sequence[str] = (),
    time_column: str | None = None,
    grain: str = "day",
    start: str | None = None,
    unfinished: str = "build",
    batch: int | None = None,
    context: str | None = None,
    null_times: str = "refuse",
    key: str | Sequence[str] = (),
    key_audit: str | None = None,
    latest_by: str | None = None,
    updated_at: str | None = None,
    compare: str | Sequence[str] = (),
    dump: str | None = None,
    partition_by: str | Sequence[str] = (),
    sort_by: str | Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    audits: Sequence[Mapping[str, Any]] = (),
    now: str | None = None,
    off: Mapping[str, str] | None = None,
) -> Callable[[_Function], _Function]:
    """Makes a function of DataFrames the model of the table `name`. All arguments must be literals. The function itself
    is unchanged, so a test can call it with its own DataFrames."""
    del name, kind, description, columns, contract, owner, tags, time_column, grain, start, unfinished, batch, context
    del dump, null_times, key, key_audit, latest_by, updated_at, compare, partition_by, sort_by, properties, audits
    del now, off
    return lambda function: function


def source(
    name: str,
    *,
    cursor: str | None = None,
    key: str | Sequence[str] = (),
    key_audit: str | None = None,
    every: str | None = None,
    description: str = "",
    columns: Mapping[str, str | Mapping[str, Any]] | None = None,
    contract: Mapping[str, str | Mapping[str, Any]] | None = None,
    on_new_column: str = "add",
    names: str = "by_rule",
    trace: Mapping[str, str | None] | bool = True,
    max_bad: str | int | Mapping[str, str | int] = "1%",
    owner: str | None = None,
    tags: Sequence[str] = (),
    partition_by: str | Sequence[str] = (),
    sort_by: str | Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    audits: Sequence[Mapping[str, Any]] = (),
    off: Mapping[str, str] | None = None,
) -> Callable[[_Function], _Function]:
    """Makes a function the source of the table `name`. All arguments must be literals.

    The function receives `spark` and, if it has these parameters, `since` (the greatest value of the `cursor` so far;
    None at first) and `now`. It returns a DataFrame. Without a `cursor`, its rows replace the existing ones; with one,
    they are added, by `key` if there is one. It is called in every run, but not before `every` (such as "6h") has
    passed.
    """
    del name, cursor, key, key_audit, every, description, columns, contract, on_new_column, names, trace, max_bad, owner
    del tags, partition_by, sort_by, properties, audits, off
    return lambda function: function


def table(
    name: str,
    *,
    time: str | None = None,
    key: str | Sequence[str] | Mapping[str, str] = (),
    on_change: str | None = None,
    new_rows: bool = False,
) -> Any:
    """The default of a parameter that receives a table's rows.

    `time`: the column by which mere filters them to the window being built. `key`: the columns or expressions that
    yield the model's key, by which mere filters them to the keys being built. `on_change`: for a table that is read in
    full, whether a change to it means to `rebuild` everything or to `ignore` it. `new_rows`: an append model receives
    only the rows that were added.
    """
    del time, key, on_change, new_rows
    return _Unfilled(f"table({name!r})")


def changes(name: str) -> Any:
    """The default of a parameter of a merge or append model that receives the rows added to and removed from a table
    since the last build, with a column `_change`; in the first build, all rows.

    `_change` is `insert` or `delete`; if the table is a model with a `key`, an update is an `update_before` and an
    `update_after`. In a merge model, returned rows with `_change` = `delete` delete their key.
    """
    return _Unfilled(f"changes({name!r})")


class _Unfilled:
    """Stands for a table until mere, or a test, gives a DataFrame in its place."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        raise AttributeError(
            f"{attribute!r} of {self._name}: outside of a run there are no rows. Call the function with a DataFrame."
        )

    def __repr__(self) -> str:
        return self._name

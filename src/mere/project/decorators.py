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
    """A function of DataFrames that makes the table `name`. All arguments have to be literals.

    The function stays what it is, so that a test can call it with DataFrames of its own.
    """
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
    """A function that brings the table `name` from outside of the lake. All arguments have to be literals.

    It gets `spark` and, if it takes them, `since` (the greatest value of the `cursor` that is there; None at first) and
    `now`; it returns a DataFrame. Without a `cursor` its rows replace those that are there; with one they are added, by
    `key` if there is one. It is called at every run, but not before `every` (such as "6h") has passed.
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
    """The default of a parameter that gets a table's rows.

    `time`: the column by which mere cuts them to the window that is built. `key`: the columns or expressions that give
    the model's key, by which mere cuts them to the keys that are built. `on_change`: for a table that is read whole,
    whether a change of it means to `rebuild` all or to `ignore` it. `new_rows`: an append model takes only the rows
    that were added.
    """
    del time, key, on_change, new_rows
    return _Unfilled(f"table({name!r})")


def changes(name: str) -> Any:
    """The default of a parameter of a merge or append model that gets the rows of a table which came and went since the
    last build, at the first build all of them, with a column `_change`.

    It is `insert` or `delete`; where the table is a model with a `key`, an update is an `update_before` and an
    `update_after`. In a merge model, rows that come back with `_change` = `delete` delete their key.
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

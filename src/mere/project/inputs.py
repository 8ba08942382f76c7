"""How a model reads its inputs: what was found and what was declared, put together by the rules of its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from mere.errors import ConfigError
from mere.names import TableName, near
from mere.project.model import Input, Kind
from mere.project.problems import Problems
from mere.project.settings import Place

# How a user writes that an input is read in such a way: in a header, or as a parameter's default.
Written = Callable[[TableName, str, str], str]
NO_DOUBTS: Mapping[TableName, str] = {}


def in_header(table: TableName, setting: str, value: str) -> str:
    return f"`inputs: {{{table}: {{{setting}: {value}}}}}`"


def in_default(table: TableName, setting: str, value: str) -> str:
    literal = value.capitalize() if value in ("true", "false") else f'"{value}"'
    return f'`table("{table}", {setting}={literal})`'


def with_declared(found: Iterable[Input], declared: Mapping[TableName, Place], problems: Problems) -> list[Input]:
    """What the user declares goes before what the query tells."""
    inputs = {each.table: each for each in found}
    for table, place in declared.items():
        if table not in inputs:
            known = [str(each) for each in inputs]
            problems.add(
                place.entry.error(f"`{table}` is not read by the query.{near(str(table), known)}", "Remove it.")
            )
            continue
        time = place.time or (None if place.on_change else inputs[table].time)
        inputs[table] = replace(inputs[table], time=time, on_change=place.on_change, new_rows=place.new_rows)
    return list(inputs.values())


def complete(
    kind: Kind,
    inputs: list[Input],
    file: str,
    line: int,
    written: Written,
    problems: Problems,
    doubts: Mapping[TableName, str] = NO_DOUBTS,
) -> tuple[Input, ...]:
    """The inputs by the rules of the kind; `line` is where the model starts. `doubts`: why a time was not found."""

    def problem(message: str, remedy: str, at: int = line) -> None:
        problems.add(ConfigError(message, remedy=remedy, file=file, line=at))

    for each in inputs:
        if each.new_rows and kind is not Kind.APPEND:
            problem(f"`new_rows` of {each.table} has no effect: the model is {kind}", "Remove it.", each.line)
        if (each.time or each.on_change) and kind not in (Kind.INCREMENTAL, Kind.APPEND):
            problem(f"`time` and `on_change` have no effect: the model is {kind}", "Remove them.", each.line)
        if each.time and each.on_change:
            problem(
                f"{each.table} is read by its `time`, so `on_change` has no effect", "Keep one of the two.", each.line
            )
    if kind is Kind.INCREMENTAL:
        _incremental(inputs, written, problem, doubts)
    if kind is Kind.APPEND:
        return _append(inputs, written, problem)
    return tuple(inputs)


def _incremental(
    inputs: list[Input], written: Written, problem: Callable[..., None], doubts: Mapping[TableName, str]
) -> None:
    for each in inputs:
        if each.time is None and each.on_change is None:
            because = f": {doubts[each.table]}" if each.table in doubts else ""
            problem(
                f"it is not known which windows a change of {each.table} touches{because}",
                f"If a column of it says so: {written(each.table, 'time', 'its_column')}. If it is read whole:"
                f" {written(each.table, 'on_change', 'rebuild')}, or `ignore` to leave the built windows as they are.",
                each.line,
            )
    if not any(each.time or each.on_change is None for each in inputs):
        problem(
            "an incremental model needs an input that is read in windows",
            "Compare a column of one with :start and :end, or write `kind: full`.",
        )


def _append(inputs: list[Input], written: Written, problem: Callable[..., None]) -> tuple[Input, ...]:
    for each in inputs:
        if each.time:
            problem(f"`time` of {each.table} has no effect: the model is append", "Remove it.", each.line)
    taken = [each for each in inputs if each.new_rows]
    if len(inputs) == 1 and not taken:
        return (replace(inputs[0], new_rows=True),)
    if len(taken) != 1:
        example = inputs[0].table if inputs else TableName("bronze", "events")
        problem(
            "an append model takes the new rows of exactly one input",
            f"Write for that one: {written(example, 'new_rows', 'true')}.",
        )
    return tuple(inputs)

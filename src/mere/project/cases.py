"""Unit tests of models, as written in tests/*.yaml. The types of values are known only when a case runs."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from mere import entries
from mere.entries import Entry
from mere.errors import ConfigError
from mere.names import TableName, near
from mere.project.files.settings import table_name
from mere.project.graph import Graph
from mere.project.kinds import Kind
from mere.project.load import TESTS, Files
from mere.project.model import Model
from mere.project.problems import Problems
from mere.text.words import counted
from mere.windows import Span, instant

_EVERY = ("model", "vars")
_PLAIN = ("now", "window", "given", "this", "expect")
_STEP = ("now", "given", "replace", "expect")
_Read = TypeVar("_Read")


@dataclass(frozen=True)
class Rows:
    """Rows as they are written: every value knows its place. A column that a row does not name is NULL in it."""

    entry: Entry
    rows: tuple[Mapping[str, Entry], ...] = ()

    @property
    def columns(self) -> dict[str, Entry]:
        """Each column with the place where it is named first."""
        found: dict[str, Entry] = {}
        for row in self.rows:
            for column, cell in row.items():
                found.setdefault(column, cell)
        return found


@dataclass(frozen=True)
class Step:
    """What comes into the inputs, and what the model's table has to be after it was built."""

    entry: Entry
    given: Mapping[TableName, Rows] = field(default_factory=dict)  # rows that are added
    replaced: Mapping[TableName, Rows] = field(default_factory=dict)  # rows in the place of all that were there
    now: datetime | None = None
    expect: Rows | None = None
    error: str | None = None  # what the message has to say, if it must fail


@dataclass(frozen=True)
class Case:
    name: str
    file: str
    line: int
    model: Model
    steps: tuple[Step, ...]
    variables: Mapping[str, str] = field(default_factory=dict)  # in place of those of mere.yaml, each as YAML
    window: Span | None = None
    this: Rows | None = None  # the model's table, as it stands before the first step
    staged: bool = False  # built step by step by the pipeline, in a lake of its own; else only the query is run

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    def named(self) -> Iterator[tuple[TableName, str, Entry]]:
        """Every column that the case names, with its table."""
        tables = [pair for step in self.steps for pair in (*step.given.items(), *step.replaced.items())]
        own = [self.this, *(step.expect for step in self.steps)]
        for table, rows in [*tables, *((self.model.name, rows) for rows in own if rows)]:
            for column, cell in rows.columns.items():
                yield table, column, cell


def read_cases(files: Files, graph: Graph) -> tuple[Case, ...]:
    """All of them, in the order of files and lines, or a ProjectError with everything that is wrong."""
    problems = Problems()
    found: list[Case] = []
    for path in files.under(TESTS):
        with problems.gather():
            if len(path.parts) > 2:
                continue
            if path.suffix == ".yml":
                raise ConfigError("a file of tests ends in .yaml", remedy="Rename it.", file=path.as_posix())
            if path.suffix == ".yaml":
                root = entries.parse(files.text(path), Path(path))
                reader = _Reader(files, graph, path, problems)
                for name, entry in root.entries().items():
                    with problems.gather():
                        found.append(reader.case(name, entry, _line_of(root, name)))
    problems.raise_any()
    return tuple(found)


def read_case(name: str, text: str, files: Files, graph: Graph, path: Path) -> Case:
    """A case that is not in its file yet."""
    problems = Problems()
    case = _Reader(files, graph, PurePosixPath(path), problems).case(name, entries.parse(text, path).entries()[name], 1)
    problems.raise_any()
    return case


class _Reader:
    """Every key is looked at, whatever is wrong with the others."""

    def __init__(self, files: Files, graph: Graph, path: PurePosixPath, problems: Problems) -> None:
        self._files = files
        self._graph = graph
        self._path = path
        self._problems = problems

    def case(self, name: str, entry: Entry, line: int) -> Case:
        found = entry.keys(*_EVERY, *(("steps", "this") if "steps" in entry.entries() else _PLAIN))
        if "model" not in found:
            raise entry.error(f"`{name}` does not say which model it tests", "Write `model: schema.name`.")
        model = self._model(found["model"])
        this = self._try(self._rows, found["this"]) if "this" in found else None
        if "steps" in found:
            steps = tuple(self._step(each, model, found) for each in found["steps"].items())
            if not any("expect" in each.entry.entries() for each in steps):
                self._problems.add(found["steps"].error("no step expects anything", "Write `expect:` in one of them."))
        else:
            steps = (self._step(entry, model, found, found),)
        return Case(
            name,
            self._path.as_posix(),
            line,
            model,
            steps,
            self._variables(found["vars"]) if "vars" in found else {},
            self._try(_window, found["window"], model) if "window" in found else None,
            this,
            staged=_is_staged(model, found),
        )

    def _model(self, entry: Entry) -> Model:
        name = table_name(entry.text(), entry)
        if name not in self._graph.models:
            raise entry.error(f"there is no model {name}.{near(str(name), map(str, self._graph.models))}")
        model = self._graph.models[name]
        if model.kind is Kind.SEED:
            raise entry.error(f"{name} is a seed: it has nothing to test", "Test a model that reads it.")
        return model

    def _step(
        self, entry: Entry, model: Model, case: Mapping[str, Entry], keys: Mapping[str, Entry] | None = None
    ) -> Step:
        found = entry.keys(*_STEP) if keys is None else keys
        staged = _is_staged(model, case)
        allowed = {each.table for each in model.inputs}
        # Audits are asked when a table is built, and not when only the query is run.
        allowed |= {table for audit in model.audits for table in audit.reads} if staged else set()
        given = self._tables(found.get("given"), model, allowed)
        replaced = self._tables(found.get("replace"), model, allowed)
        now = self._try(_instant, found["now"]) if "now" in found else None
        if model.now and now is None and not staged:
            self._problems.add(entry.error(f"{model} uses :now, but the test does not set `now`", "Write `now: …`."))
        if not model.now and not staged and "now" in found:
            self._problems.add(found["now"].error(f"`now` has no effect: {model} does not use it", "Remove it."))
        expect = found.get("expect")
        if expect is None:
            if not staged or keys is not None:
                self._problems.add(entry.error("it expects nothing", "Write `expect:` and rows; `[]` means none."))
            return Step(entry, given, replaced, now)
        if expect.is_map:
            return Step(entry, given, replaced, now, error=self._try(_error, expect))
        return Step(entry, given, replaced, now, self._try(self._expected, expect))

    def _tables(self, entry: Entry | None, model: Model, allowed: set[TableName]) -> dict[TableName, Rows]:
        found = {}
        for text, value in entry.entries().items() if entry else ():
            with self._problems.gather():
                table = table_name(text, value)
                if table not in allowed:
                    raise value.error(f"{model} does not read {table}.{near(text, map(str, allowed))}")
                found[table] = self._rows(value)
        return found

    def _expected(self, entry: Entry) -> Rows:
        rows = self._rows(entry)
        for row in rows.rows:
            for column, cell in rows.columns.items():
                if column not in row:
                    at = next(iter(row.values()), cell)
                    raise at.error(f"this row does not name `{column}`, which another row does", "Write null for NULL.")
        return rows

    def _rows(self, entry: Entry) -> Rows:
        """A list of maps, or the name of a CSV file beside this file."""
        if entry.is_null:
            return Rows(entry)
        if isinstance(entry.value(), str):
            return Rows(entry, tuple(self._csv(entry)))
        if entry.is_map:
            raise entry.error("rows are a list", "Write `- {column: value}` for each row.")
        rows = tuple(each.entries() for each in entry.items())
        if any(not row for row in rows):
            raise entry.error("a row must name a column", "Write `- {column: value}`.")
        return Rows(entry, rows)

    def _csv(self, entry: Entry) -> Iterator[Mapping[str, Entry]]:
        path = self._path.parent / entry.text()
        if self._files.digest(path.as_posix()) is None:
            raise entry.error(f"there is no file {path}", "Rows are a list, or a CSV file beside this file.")
        reader = csv.reader(self._files.text(path).removeprefix("\ufeff").splitlines(keepends=True))
        header = next(reader, [])
        if not header or "" in header:
            raise ConfigError("the first line must name every column", file=path.as_posix(), line=1)
        for values in reader:
            line = reader.line_num
            if values and len(values) != len(header):
                message = f"the line has {counted(len(values), 'value')} for {counted(len(header), 'column')}"
                raise ConfigError(message, file=path.as_posix(), line=line)
            if values:
                pairs = zip(header, values, strict=True)
                yield {column: _cell(text, Path(path), line) for column, text in pairs}

    def _variables(self, entry: Entry) -> dict[str, str]:
        return {name: json.dumps(value.value(), default=str) for name, value in entry.entries().items()}

    def _try(self, read: Callable[..., _Read], *arguments: Any) -> _Read | None:
        try:
            return read(*arguments)
        except ConfigError as error:
            self._problems.add(error)
            return None


def _cell(text: str, file: Path, line: int) -> Entry:
    """As if the text stood in YAML without quotes, but only nothing is NULL: `null` is a text."""
    import yaml

    mark = yaml.Mark(str(file), 0, line - 1, 0, "", 0)
    tag = yaml.SafeLoader("").resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    if text and tag.endswith(":null"):
        tag = "tag:yaml.org,2002:str"
    return Entry(file, "", yaml.ScalarNode(tag, text, mark, mark))


def _line_of(root: Entry, name: str) -> int:
    """Where the name stands: what it names begins in the next line."""
    pairs = getattr(root.node, "value", ())
    return next(1 + int(key.start_mark.line) for key, _ in pairs if key.value == name)


def _is_staged(model: Model, found: Mapping[str, Entry]) -> bool:
    """What these models make of their query, only the pipeline knows."""
    by_key = model.kind.rules.by_key or any(each.changes for each in model.inputs)
    return by_key or "steps" in found or "this" in found


def _error(entry: Entry) -> str:
    found = entry.keys("error")
    if "error" not in found:
        raise entry.error("it expects nothing", "Write a list of rows, or `{error: what the message says}`.")
    return found["error"].text()


def _instant(entry: Entry) -> datetime:
    try:
        return instant(entry.text())
    except ValueError as error:
        raise entry.error(f"`{entry.key}` must be a time in UTC", "Write for example `2024-02-11T05:00`.") from error


def _window(entry: Entry, model: Model) -> Span:
    if model.time is None:
        raise entry.error(f"`window` has no effect: {model} is {model.kind}", "Remove it.")
    times = [_instant(each) for each in entry.items()]
    if len(times) != 2 or times[0] >= times[1]:
        raise entry.error("a window is two times: where it begins, and before what it ends", "Write `[…, …]`.")
    return Span(*times)

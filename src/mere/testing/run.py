"""Runs cases in one session, each with its outcome."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

from mere.engine.session import session
from mere.errors import MereError, UsageError
from mere.lake.query.tables import TableSet
from mere.names import TableName, near
from mere.pipeline.run.request import Project
from mere.project.cases import Case, Rows, Step
from mere.project.load import Loader
from mere.project.model import Model
from mere.testing.cells import value_of
from mere.testing.compare import Difference, compare
from mere.testing.given import Schemas
from mere.testing.pipeline_case import Stage
from mere.testing.query_case import Bench, given

if TYPE_CHECKING:
    import pyarrow as pa

# What takes the time is Spark's planning, which one thread does for one query; while it waits, the other goes on.
_THREADS = 2


@dataclass(frozen=True)
class Outcome:
    """`message` says why it failed; the difference is there if it was about rows."""

    case: Case
    seconds: float
    message: str | None = None
    difference: Difference | None = None
    step: int | None = None  # of a case in steps: where it failed, from 1 on

    @property
    def passed(self) -> bool:
        return self.message is None

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.case.name,
            "model": str(self.case.model),
            "file": self.case.file,
            "line": self.case.line,
            "state": "passed" if self.passed else "failed",
            "seconds": round(self.seconds, 3),
            "message": self.message,
            "step": self.step,
            "difference": self.difference.to_dict() if self.difference else None,
        }


def chosen(cases: Sequence[Case], names: Sequence[str], models: set[TableName]) -> list[Case]:
    """Those of the models, by name or glob; all if there is no name."""
    for name in names:
        if not any(fnmatchcase(case.name, name) for case in cases):
            raise UsageError(f"There is no test {name}.{near(name, (case.name for case in cases))}")
    named = [case for case in cases if not names or any(fnmatchcase(case.name, name) for name in names)]
    return [case for case in named if case.model.name in models]


def table_of(project: Project, case: Case, tables: TableSet) -> pa.Table | MereError:
    """What comes of a case of one step, whatever it expects."""
    with session(project.lake, settings=project.spark) as opened:
        bench = Bench(opened, project.folder)
        schemas = Schemas(project.graph, project.folder, tables, bench.analyse)
        if not case.staged:
            return bench.result(case, case.model, given(case, schemas))
        with Stage(project.spark, project.folder) as stage:
            return next(result for _, result in stage.play(case, case.model, schemas))


def run_cases(project: Project, cases: Sequence[Case], tables: TableSet | None) -> Iterator[Outcome]:
    """In their order. `tables`: the ref on which columns of tables are looked up."""
    if not cases:
        return
    with session(project.lake, settings=project.spark) as opened:
        bench = Bench(opened, project.folder)
        runner = _Runner(project, bench, Schemas(project.graph, project.folder, tables, bench.analyse))
        try:
            yield from runner.outcomes(cases)
        except BaseException:
            opened.cancel()
            raise


class _Runner:
    def __init__(self, project: Project, bench: Bench, schemas: Schemas) -> None:
        self._project = project
        self._bench = bench
        self._schemas = schemas
        self._models: dict[tuple[TableName, str], Model] = {}
        self._reading = threading.Lock()

    def outcomes(self, cases: Sequence[Case]) -> Iterator[Outcome]:
        with ThreadPoolExecutor(_THREADS) as pool:
            plain = {id(case): pool.submit(self._outcome, case, self._plain) for case in cases if not case.staged}
            try:
                if len(plain) == len(cases):
                    yield from (plain[id(case)].result() for case in cases)
                    return
                with Stage(self._project.spark, self._project.folder) as stage:
                    for case in cases:
                        if id(case) in plain:
                            yield plain[id(case)].result()
                        else:
                            yield self._outcome(case, partial(self._staged, stage))
            finally:
                pool.shutdown(cancel_futures=True)

    def _outcome(self, case: Case, play: Callable[[Case], Outcome | None]) -> Outcome:
        begun = time.monotonic()
        try:
            found = play(case)
        except MereError as error:  # the test itself is wrong, or Spark is gone
            found = Outcome(case, 0, str(error))
        seconds = time.monotonic() - begun
        return Outcome(case, seconds, found.message, found.difference, found.step) if found else Outcome(case, seconds)

    def _plain(self, case: Case) -> Outcome | None:
        model, tables = self._model(case), given(case, self._schemas)
        result: pa.Table | MereError
        try:
            result = self._bench.result(case, model, tables)
        except MereError as error:
            result = error
        return judged(case, case.steps[0], result)

    def _staged(self, stage: Stage, case: Case) -> Outcome | None:
        for number, (step, result) in enumerate(stage.play(case, self._model(case), self._schemas), 1):
            if (found := judged(case, step, result)) is not None:
                several = len(case.steps) > 1
                return Outcome(case, 0, found.message, found.difference, number if several else None)
        return None

    def _model(self, case: Case) -> Model:
        """With the variables of the case."""
        if not case.variables:
            return case.model
        key = case.model.name, repr(sorted(case.variables.items()))
        with self._reading:
            if key not in self._models:
                variables = {**self._project.variables, **case.variables}
                self._models[key] = Loader(self._project.folder, variables).again(case.model)
            return self._models[key]


def judged(case: Case, step: Step, result: pa.Table | MereError) -> Outcome | None:
    """None if it is as expected."""
    if step.error is not None:
        if not isinstance(result, MereError):
            message = f"expected to fail with “{step.error}”, but gave {result.num_rows} rows"
        elif step.error.casefold() in result.message.casefold():
            return None
        else:
            message = f"expected to fail with “{step.error}”, but failed with: {result}"
        return Outcome(case, 0, message)
    if isinstance(result, MereError):
        return Outcome(case, 0, str(result))
    if step.expect is None:
        return None
    difference = differing(step.expect, result, case.model)
    return Outcome(case, 0, difference.lines()[0], difference) if difference else None


def differing(expect: Rows, result: pa.Table, model: Model) -> Difference | None:
    """By the columns that the expected rows name; by all, if no row is expected."""
    names = {name.casefold(): name for name in result.column_names}
    columns = []
    for column, cell in expect.columns.items():
        if column.casefold() not in names:
            raise cell.error(f"{model} has no column `{column}`.{near(column, result.column_names)}")
        columns.append(names[column.casefold()])
    columns = columns or result.column_names
    kinds = [result.schema.field(name).type for name in columns]
    expected = [
        tuple(value_of(row[column], kind) for column, kind in zip(expect.columns, kinds, strict=True))
        for row in expect.rows
    ]
    found = list(zip(*(result.column(name).to_pylist() for name in columns), strict=True))
    return compare(columns, expected, found, model.key)

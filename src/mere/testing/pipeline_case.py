"""A case in steps: the pipeline builds the model's table as in production, in a throw-away lake."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from mere.engine.session import session
from mere.errors import MereError, RunFailed
from mere.lake.lake import Lake
from mere.names import MAIN, TableName
from mere.pipeline.plan.facts import facts
from mere.pipeline.run import accept
from mere.pipeline.run.request import Event, Project, Request
from mere.pipeline.run.run import run
from mere.project.cases import Case, Rows, Step
from mere.project.graph import Graph
from mere.project.model import Model
from mere.sparkconfig import RestSettings
from mere.sql.spelling.spark import name_of, quoted
from mere.testing.given import Schemas, arrow, columns_of, frame, with_written
from mere.testing.types import of_spark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from mere.sparkconfig import SparkSettings


class Stage:
    """The lake in which all cases of a test run are built, each on a branch of its own."""

    def __init__(self, settings: SparkSettings, folder: Path) -> None:
        # No server but the session's own knows a lake that is thrown away.
        self._settings = replace(settings, rest=RestSettings() if settings.rest else None)
        self._folder = folder
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack as stack:
            root = stack.enter_context(tempfile.TemporaryDirectory(prefix="mere-test-"))
            self._lake = Lake.create(Path(root) / "lake")
            stack.callback(self._lake.close)
            self._session = stack.enter_context(session(self._lake, MAIN, settings=self._settings))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def play(self, case: Case, model: Model, schemas: Schemas) -> Iterator[tuple[Step, pa.Table | MereError]]:
        """Of each step the rows of the model's table after it, or why it failed."""
        branch = f"case_{len(self._lake.refs())}"
        self._lake.branch(branch)
        catalog = self._session.use(branch)
        try:
            yield from _Play(self, case, model, schemas, branch).steps()
        finally:
            self._session.use(MAIN)
            self._session.detach(catalog)

    def build(self, model: Model, branch: str, now: datetime | None) -> None:
        project = Project(self._lake, Graph({model.name: model}), self._folder, self._settings)
        failed: list[str] = []

        def listen(event: Event) -> None:
            if event.kind == "failed":
                failed.append(event.about["error"])

        try:
            run(project, Request(on=branch, threads=1, now=now), listen)
        except RunFailed as error:
            # Without the advice to look at the branch: it is gone when the test ends.
            raise RunFailed(failed[0]) if failed else error from error

    def take_as_built(self, model: Model, branch: str, now: datetime | None) -> None:
        known = facts(self._lake, branch, now or self._lake.now())
        accept.accept(self._lake, Graph({model.name: model}), [model.name], known, branch)

    def frame(self, rows: pa.Table) -> DataFrame:
        return frame(rows, self._session.spark)

    def make(self, table: TableName, rows: pa.Table) -> None:
        self._session.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quoted(table.namespace)}")
        writer = self.frame(rows).writeTo(name_of(table)).using("iceberg").tableProperty("format-version", "2")
        writer.create()

    def read(self, table: TableName) -> DataFrame:
        return self._session.spark.table(name_of(table))


class _Play:
    def __init__(self, stage: Stage, case: Case, model: Model, schemas: Schemas, branch: str) -> None:
        self._stage = stage
        self._case = case
        self._model = model
        self._branch = branch
        # Also the tables with which audits compare, if anything is known of them.
        compared = {table for audit in model.audits for table in audit.reads} - {model.name}
        written = {table: self._written(table) for table in {each.table for each in model.inputs} | compared}
        self._columns = {
            table: columns_of(table, rows, schemas, case.place)
            for table, rows in sorted(written.items())
            if table not in compared or rows or schemas.of(table)
        }

    def _written(self, table: TableName) -> list[Rows]:
        return [each[table] for step in self._case.steps for each in (step.given, step.replaced) if table in each]

    def steps(self) -> Iterator[tuple[Step, pa.Table | MereError]]:
        for table, columns in self._columns.items():
            self._stage.make(table, arrow(None, columns))
        if self._case.this is not None:
            self._build_this(self._case.this, self._case.steps[0].now)
        for step in self._case.steps:
            self._change(step)
            yield step, self._built(step)

    def _build_this(self, this: Rows, now: datetime | None) -> None:
        """The table is made by the model out of nothing; then the rows come into it, and count as built."""
        name = self._model.name
        self._stage.build(self._model, self._branch, now)
        schema = self._stage.read(name).schema
        known = {field.name: of_spark(field.dataType.simpleString()) for field in schema}
        self._stage.frame(arrow(this, with_written(name, [this], known, False))).writeTo(name_of(name)).append()
        self._stage.take_as_built(self._model, self._branch, now)

    def _change(self, step: Step) -> None:
        from pyspark.sql.functions import expr

        for table, rows in step.replaced.items():
            self._stage.frame(arrow(rows, self._columns[table])).writeTo(name_of(table)).overwrite(expr("true"))
        for table, rows in step.given.items():
            self._stage.frame(arrow(rows, self._columns[table])).writeTo(name_of(table)).append()

    def _built(self, step: Step) -> pa.Table | MereError:
        try:
            self._stage.build(self._model, self._branch, step.now)
        except MereError as error:
            return error
        rows: pa.Table = self._stage.read(self._model.name).toArrow()
        return rows

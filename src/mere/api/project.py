"""A project and every verb on it: what the command line does, for Python."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from mere import config
from mere.api.choice import Choice, Names, RunOptions, Time, names_of
from mere.api.place import Address, project_file
from mere.errors import ConfigError, LakeError, UsageError
from mere.lake.lake import Lake
from mere.lake.log.refs import RefLike, spelled
from mere.names import MAIN, near
from mere.project.graph import Graph
from mere.project.kinds import Kind
from mere.project.load import load
from mere.project.model import Model
from mere.ranges import Age, at_least

if TYPE_CHECKING:
    from mere.api.audit import AuditResult
    from mere.api.check import CheckResult
    from mere.api.events import Listener
    from mere.api.lineage.columns import ColumnLineage
    from mere.api.lineage.tables import TableLineage
    from mere.api.manifest import Manifest
    from mere.api.plan import Plan
    from mere.api.run import Attempt, RunResult
    from mere.api.running import Running
    from mere.api.test import TestResult, Watcher
    from mere.api.update import BranchUpdate
    from mere.lake.log.runs import Run
    from mere.lake.query.tables import TableSet
    from mere.lake.refs.attempts import Ended
    from mere.lake.upkeep.cleaning import Deleted
    from mere.pipeline.plan.retry import Quarantine
    from mere.pipeline.run import request
    from mere.testing.create import Created
    from mere.text.notebook import Listing


class Project:
    """A project under one profile. Every command about a project is a method of the same name, and every flag a
    keyword.

    Each method reads the files again, so it sees what was edited. Several threads may use a project at once. `close()`,
    or the end of a `with` block, closes its lake.
    """

    def __init__(
        self,
        file: Path,
        profile: str | None = None,
        lake: str | os.PathLike[str] | None = None,
        vars: Mapping[str, Any] | None = None,  # noqa: A002 - so it is called in mere.yaml
    ) -> None:
        self.file = file
        self.vars = {name: _text(value) for name, value in (vars or {}).items()}
        self._profile = profile
        self._named_lake = None if lake is None else os.fspath(lake)
        self._opening = threading.Lock()
        self._lakes: dict[Address, Lake] = {}

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] = ".",
        profile: str | None = None,
        lake: str | os.PathLike[str] | None = None,
        vars: Mapping[str, Any] | None = None,  # noqa: A002
    ) -> Self:
        """The project in a folder, or in the nearest one above it. The lake is opened when it is first needed.

        `profile`: of mere.yaml; by default MERE_PROFILE, or `local`. `lake`: instead of the one in mere.yaml. `vars`:
        instead of those in mere.yaml.
        """
        return cls(project_file(path), profile, lake, vars)

    # what it is

    @property
    def folder(self) -> Path:
        return self.file.parent

    @property
    def settings(self) -> config.Project:
        """The contents of mere.yaml under the profile."""
        return config.load(self.file, self._profile)

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def lake(self) -> Lake:
        """The lake; the same object for as long as mere.yaml names the same one."""
        address = Address(self._named_lake) if self._named_lake else Address.of(self.settings)
        with self._opening:
            if address not in self._lakes:
                self._lakes[address] = address.open()
            return self._lakes[address]

    def close(self) -> None:
        """Close its lake. It is opened again when needed."""
        with self._opening:
            while self._lakes:
                self._lakes.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        profile = f", profile {self._profile}" if self._profile else ""
        lake = f", lake {self._named_lake}" if self._named_lake else ""
        return f"<Project {self.folder}{profile}{lake}>"

    @property
    def graph(self) -> Graph:
        """All models, with sources and seeds, and which reads which, as the files are now."""
        return load(self.folder, self.vars).placed(self.settings.sources)

    @property
    def models(self) -> dict[str, Model]:
        """By name, in dependency order; without sources and seeds."""
        return self._of_kind(lambda kind: kind not in (Kind.SOURCE, Kind.SEED))

    @property
    def sources(self) -> dict[str, Model]:
        return self._of_kind(lambda kind: kind is Kind.SOURCE)

    @property
    def seeds(self) -> dict[str, Model]:
        return self._of_kind(lambda kind: kind is Kind.SEED)

    def _of_kind(self, wanted: Callable[[Kind], bool]) -> dict[str, Model]:
        return {str(name): model for name, model in self.graph.models.items() if wanted(model.kind)}

    def _read(self, variables: Mapping[str, str] | None = None) -> request.Project:
        """The project as the pipeline has it, at this moment."""
        from mere.pipeline.run.request import Project as Read

        settings, given = self.settings, self.vars if variables is None else variables
        graph = load(self.folder, given).placed(settings.sources)
        return Read(self.lake, graph, self.folder, settings.spark, given, settings.landing)

    @property
    def command(self) -> list[str]:
        """How a command line for this project begins, in its folder."""
        profile = ["--profile", self._profile] if self._profile else []
        return [sys.executable, "-m", "mere", *profile, *(["--lake", self._named_lake] if self._named_lake else [])]

    # looking

    def check(self, select: Names = (), *, at: RefLike | None = None, strict: bool = False) -> CheckResult:
        """Find mistakes in the project's files, without a JVM.

        `at`: the ref on which tables that no model makes are looked up; by default main, if there is a lake. `strict`:
        treat warnings as errors.
        """
        from mere.api.check import CheckResult
        from mere.project.check.check import check

        tables, without = self._tables_if_any(at)
        for_trino = tables is not None and self.settings.trino is not None
        found = check(self.folder, names_of(select), self.vars, tables, for_trino=for_trino)
        return CheckResult(found.models, found.findings, strict, without)

    def _tables_if_any(self, at: RefLike | None) -> tuple[TableSet | None, str | None]:
        """A project can be looked at where its lake is not, such as in a merge request: then, why it is not there."""
        try:
            return self.lake.at(at or MAIN), None
        except (LakeError, ConfigError) as error:
            if at is not None:
                raise
            return None, error.message

    def plan(
        self,
        select: Names = (),
        *,
        on: RefLike = MAIN,
        full_refresh: bool = False,
        start: Time | None = None,
        end: Time | None = None,
        forward_only: bool = False,
        allow_breaking: bool = False,
        limit_windows: int | None = None,
        sample: str | float | None = None,
        check: bool = True,
        accept: Names = (),
    ) -> Plan:
        """Plan a run: what it would build, and why. Starts nothing, and changes nothing except for models to `accept`,
        which then count as built as they are now."""
        from mere.api.plan import planned

        choice = Choice(
            select, spelled(on), full_refresh, start, end, forward_only, allow_breaking, limit_windows, sample, check
        )
        return planned(self._read(), choice, names_of(accept), for_trino=self.settings.trino is not None)

    def audit(self, select: Names = (), *, at: RefLike = MAIN, spark: bool = False) -> AuditResult:
        """Run the audits of the models on any ref: with DuckDB, or with Spark for those that DuckDB cannot run."""
        from mere.api.audit import AuditResult
        from mere.pipeline.run.audit import audit

        project, at = self._read(), spelled(at)
        selected = project.graph.select(names_of(select))
        settings = project.spark if spark else None
        found = audit(project.lake, project.graph, selected, at, project.lake.now(), settings)
        return AuditResult(at, found.commit, found.findings, found.missing, project.lake)

    def lineage(
        self, name: str | None = None, *, way: str | None = None, at: RefLike | None = None
    ) -> ColumnLineage | TableLineage:
        """The lineage of a column, or of all columns of a table, without a JVM. Without a name, or for a selection of
        models: which table is made of which.

        `way`: "up" or "down" for only one of them. `at`: as for `check`.
        """
        from mere.api.lineage.columns import WAYS, of_column
        from mere.api.lineage.tables import TableLineage, is_selection

        if way not in (None, *WAYS):
            raise UsageError(f"Lineage leads up or down, not {way!r}.")
        graph = load(self.folder, self.vars)
        if name is not None and not is_selection(name):
            tables, without = self._tables_if_any(at)
            return of_column(graph, self.folder, name, way, tables, without)
        if way:
            said = f"--{way} goes with one table or column."
            raise UsageError(said, remedy="Write +NAME for all upstream, NAME+ for all downstream.")
        return TableLineage(name or self.folder.name, graph, graph.select([name] if name else []))

    def manifest(self, at: RefLike = MAIN) -> Manifest:
        """The project and its state at a ref, as one document for other tools."""
        from mere.api.manifest import Manifest
        from mere.pipeline.plan.facts import facts
        from mere.pipeline.run.manifest import manifest

        lake = self.lake
        known = facts(lake, spelled(at), lake.now())
        return Manifest(manifest(self.settings, lake, load(self.folder, self.vars), known))

    # runs

    def run(
        self,
        select: Names = (),
        *,
        on: RefLike | None = None,
        full_refresh: bool = False,
        start: Time | None = None,
        end: Time | None = None,
        forward_only: bool = False,
        allow_breaking: bool = False,
        limit_windows: int | None = None,
        sample: str | float | None = None,
        check: bool = True,
        resume: str | None = None,
        accept: Names = (),
        if_running: str = "wait",
        threads: int = 4,
        message: str | None = None,
        id: str | None = None,  # noqa: A002
        listen: Listener | None = None,
    ) -> RunResult:
        """Build what is due on a branch of its own, audit it there, and publish everything at once, or nothing.

        A run that fails raises; the error has the record of the run as `run`. `listen` is called with each event, by
        one thread at a time. `on`: by default main, or the branch of the run that is resumed. `id`: the run's, 12 hex
        digits of your own.
        """
        options: RunOptions = {
            "on": on, "full_refresh": full_refresh, "start": start, "end": end, "forward_only": forward_only,
            "allow_breaking": allow_breaking, "limit_windows": limit_windows, "sample": sample, "check": check,
            "resume": resume, "accept": accept, "if_running": if_running, "threads": threads, "message": message,
            "id": id,
        }  # fmt: skip
        return self._carry_out(select, options, listen)

    def start(self, select: Names = (), **options: Unpack[RunOptions]) -> Running:
        """Like `run`, but in a thread of its own: `with project.start() as run: for event in run: …`"""
        from mere.api.running import Running

        for unknown in options.keys() - RunOptions.__annotations__.keys():  # as Python says it of `run`
            meant = near(unknown, RunOptions.__annotations__)
            raise TypeError(f"Project.start() got an unexpected keyword argument {unknown!r}.{meant}")
        return Running(lambda listen, stop: self._carry_out(select, options, listen, stop))

    def _carry_out(
        self, select: Names, options: RunOptions, listen: Listener | None, stop: threading.Event | None = None
    ) -> RunResult:
        from mere.api.run_request import prepared

        def prepare() -> tuple[request.Project, request.Request]:
            return prepared(select, options, self.vars, self._read, self.lake.run)

        return self._attempt(spelled(options.get("on") or MAIN), listen, stop).carry_out(prepare)

    def _attempt(self, on: str, listen: Listener | None, stop: threading.Event | None = None) -> Attempt:
        from mere.api.run import Attempt

        return Attempt(on, self._settings_if_right, listen, stop)

    def _settings_if_right(self) -> config.Project | None:
        try:
            return self.settings
        except ConfigError:
            return None

    def update_branch(self, name: RefLike, *, run: bool = True, listen: Listener | None = None) -> BranchUpdate:
        """Bring the changes of its parent into a branch, and rebuild the branch's own models that they affect by a
        `run`. Models built from a part of the data are left as they are."""
        from mere.api.update import built_again, updated

        tell, name = listen or (lambda _: None), spelled(name)
        done = updated(self.lake, name)
        tell(done.updated)
        return replace(done, run=built_again(done, self._read, self._attempt(name, tell), tell)) if run else done

    def runs(self, limit: int = 20) -> Listing[Run]:
        """The runs of the last 90 days, newest first."""
        return self.lake.runs(limit)

    def run_record(self, id: str) -> Run:  # noqa: A002
        """One run: what happened to each model, attempt by attempt."""
        return self.lake.run(id)

    def end_run(self, id: str) -> Ended:  # noqa: A002
        """End a run, whoever has it: it can no longer publish. What it built stays, and the run can be resumed."""
        return self.lake.end_run(id)

    def clean_runs(self, *, older_than: Age = timedelta(0), dry_run: bool = False) -> Deleted:
        """Delete the branches of runs that ended without publishing and have not changed for this long: `7d`."""
        return self.lake.clean_runs(older_than, dry_run=dry_run)

    # quarantine

    def quarantine(self, tables: Names = (), *, at: RefLike = MAIN) -> Listing[Quarantine]:
        """How many rows are in quarantine, by table, rule and run."""
        from mere.api.quarantine import quarantined

        return quarantined(self.lake, tables, spelled(at))

    def retry(
        self, tables: Names = (), *, on: RefLike = MAIN, message: str | None = None, listen: Listener | None = None
    ) -> RunResult:
        """Rebuild what the quarantined rows belong to, with today's rules and data: a run like any other."""
        from mere.api.quarantine import retrying

        on = spelled(on)

        def prepare() -> tuple[request.Project, request.Request] | None:
            return retrying(self._read(), tables, on, message)

        return self._attempt(on, listen).carry_out(prepare)

    # tests

    def test(
        self, names: Names = (), *, select: Names = (), at: RefLike = MAIN, listen: Watcher | None = None
    ) -> TestResult:
        """Run the unit tests of tests/*.yaml: all, or those with these names. Reads and writes no table.

        `select`: only tests of these models. `at`: where to look up the columns of tables.
        """
        from mere.api.test import tested

        spark = self.settings.spark
        return tested(
            self.folder, self.vars, spark, lambda: self.lake, names_of(names), names_of(select), spelled(at), listen
        )

    def create_test(self, model: str, *, source: RefLike = MAIN, rows: int = 5) -> Created:
        """Write a test of a model from real rows; runs nothing else."""
        from mere.engine.session import get_ready
        from mere.testing.create import create

        at_least(1, rows=rows)
        project = self._read()
        get_ready(project.lake, project.spark)
        return create(project, model, spelled(source), rows)


def _text(value: object) -> str:
    """As `--var NAME=VALUE` has it."""
    return value if isinstance(value, str) else json.dumps(value, default=str)

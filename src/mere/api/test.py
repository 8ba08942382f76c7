"""The results of the unit tests of models."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mere.errors import LakeNotFound
from mere.lake.lake import Lake
from mere.pipeline.run.request import Project
from mere.project.cases import read_cases
from mere.project.load import Loader
from mere.sparkconfig import SparkSettings
from mere.testing.run import Outcome, chosen, run_cases
from mere.text import notebook
from mere.text.notebook import Column
from mere.text.words import counted

# Gets each outcome as it comes, and how many there will be.
Watcher = Callable[[Outcome, int], None]


@dataclass(frozen=True)
class TestResult:
    __test__ = False  # whatever pytest makes of the name

    outcomes: tuple[Outcome, ...]
    without_lake: str | None = None  # why columns of the lake's tables were not known, if they were not

    @property
    def passed(self) -> tuple[Outcome, ...]:
        return tuple(each for each in self.outcomes if each.passed)

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple(each for each in self.outcomes if not each.passed)

    @property
    def ok(self) -> bool:
        return not self.failed

    @property
    def counts(self) -> str:
        """`12 tests: 11 passed, 1 failed`"""
        failed = f", {len(self.failed):,} failed" if self.failed else ""
        return f"{counted(len(self.outcomes), 'test')}: {len(self.passed):,} passed{failed}"

    def __repr__(self) -> str:
        return f"<TestResult {self.counts}>"

    def _repr_html_(self) -> str:
        columns = [Column(""), Column("model"), Column("test"), Column("seconds", True), Column("message")]
        rows = [
            ("✓" if each.passed else "✗", each.case.model, each.case.name, f"{each.seconds:.1f}", why_failed(each))
            for each in self.outcomes
        ]
        return notebook.shown(self.counts, notebook.table(columns, rows))

    def to_dict(self) -> dict[str, Any]:
        """What `mere test --json` prints."""
        counts = {"passed": len(self.passed), "failed": len(self.failed)}
        return {**counts, "tests": [each.to_dict() for each in self.outcomes]}


def why_failed(outcome: Outcome) -> str:
    """Why it failed, in lines."""
    return "\n".join(outcome.difference.lines()) if outcome.difference else outcome.message or ""


def tested(
    folder: Path,
    variables: Mapping[str, str],
    spark: SparkSettings,
    opened: Callable[[], Lake],
    names: Sequence[str],
    select: Sequence[str],
    at: str,
    listen: Watcher | None,
) -> TestResult:
    from mere.engine.session import get_ready

    with ExitStack() as stack:
        lake, spark, without = lake_or_empty(stack, opened, spark)
        get_ready(lake, spark)
        loader = Loader(folder, variables)
        graph = loader.load()
        project = Project(lake, graph, folder, spark, variables)
        cases = chosen(read_cases(loader.files, graph), names, graph.select(select))
        outcomes = []
        for outcome in run_cases(project, cases, lake.at(at)):
            outcomes.append(outcome)
            if listen is not None:
                listen(outcome, len(cases))
        return TestResult(tuple(outcomes), without)


def lake_or_empty(
    stack: ExitStack, opened: Callable[[], Lake], spark: SparkSettings
) -> tuple[Lake, SparkSettings, str | None]:
    """A project can be tested where its lake is not, such as in a merge request: then in an empty one, and why. No
    engine is kept warm for it: nobody would find that of a lake that is thrown away."""
    try:
        return opened(), spark, None
    except LakeNotFound as error:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mere-test-"))
        empty = stack.enter_context(Lake.create(Path(folder) / "lake"))
        return empty, replace(spark, keep_warm=None), error.message

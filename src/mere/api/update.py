"""Updates a branch to its parent's head, and rebuilds what that affects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mere.api.events import LeftAsIs, Listener, Updated
from mere.api.run import Attempt, RunResult
from mere.lake.lake import Lake
from mere.lake.log.commits import Space
from mere.names import TableName
from mere.pipeline.plan.facts import facts
from mere.pipeline.run.request import Project, Request


@dataclass(frozen=True)
class BranchUpdate:
    """`kept`: the branch's own changes. `dropped`: what both changed; the parent's version was taken."""

    updated: Updated
    touched: frozenset[TableName]
    samples: frozenset[TableName]  # what was built from a part of the data
    run: RunResult | None = None

    @property
    def kept(self) -> tuple[str, ...]:
        return self.updated.kept

    @property
    def dropped(self) -> tuple[str, ...]:
        return self.updated.dropped

    def to_dict(self) -> dict[str, Any]:
        """The first line that `mere branch update --json` prints, and what came of the run."""
        return {**self.updated.about, "run": self.run.to_dict() if self.run else None}


def updated(lake: Lake, name: str) -> BranchUpdate:
    """Bring the changes of its parent into a branch."""
    done = lake.rebase(name)
    keys = [change.key for change in done.kept] + [conflict.key for conflict in done.dropped]
    about = {
        "branch": name,
        "parent": done.parent,
        "before": done.before.id,
        "base": done.base.id,
        "after": lake.resolve(name).commit.id,
        "kept": [str(change.key) for change in done.kept],
        "dropped": [str(each.key) for each in done.dropped],
    }
    touched = frozenset(key.table for key in keys if key.space is Space.RELATION)
    return BranchUpdate(Updated.from_about(about), touched, _samples(lake, done.before.id) | _samples(lake, name))


def _samples(lake: Lake, at: str) -> frozenset[TableName]:
    built = facts(lake, at, lake.now()).built_by_mere()
    return frozenset(table for table, state in built.items() if state.sample)


def built_again(done: BranchUpdate, read: Callable[[], Project], attempt: Attempt, listen: Listener) -> RunResult:
    """The models among the tables that the update touched, and what stands on them. A sample would become all of its
    history, so it is left as it is."""
    branch = done.updated.branch

    def prepare() -> tuple[Project, Request] | None:
        project = read()
        touched = project.graph.downstream(done.touched)
        left = touched & project.graph.downstream(done.samples)
        if left:
            listen(LeftAsIs.from_about({"branch": branch, "models": sorted(map(str, left))}))
        if not (due := touched - left):
            return None
        return project, Request(on=branch, selection=tuple(sorted(map(str, due))))

    return attempt.carry_out(prepare)

"""Reasons to refuse a run before it begins."""

from __future__ import annotations

from mere.errors import ReadOnlyRef, RunFailed, UsageError
from mere.lake.lake import Lake
from mere.names import MAIN
from mere.pipeline.plan.remedies import within
from mere.pipeline.plan.steps import Plan
from mere.pipeline.run.request import Request


def refuse_read_only(lake: Lake, on: str) -> None:
    ref = lake.resolve(on).ref
    if ref is None or not ref.kind.writable:
        raise ReadOnlyRef(
            f"{on} is not a branch, so nothing can be published to it. Nothing was run.",
            remedy=f"Run on a branch of it: mere branch create fix --from {on}, then mere run --on fix",
        )


def refuse_known(lake: Lake, request: Request) -> None:
    if request.id is not None and lake.store.run(request.id) is not None:
        raise UsageError(
            f"There is a run {request.id} already. Nothing was run.",
            remedy=f"Choose another id, or go on with that run: mere run --resume {request.id}",
        )


def refuse_samples_of_main(request: Request) -> None:
    if request.wish.partial and request.on == MAIN:
        raise UsageError(
            "A run on a part of the data cannot be published to main.",
            remedy="Run it on a branch of your own: mere branch create dev, then mere run --on dev …",
        )


def refuse_blocked(due: Plan, untouched: str = "Nothing was run.", branch: str | None = None) -> None:
    """`branch`: of the run, if the plan was made there."""
    if due.blocked:
        lines = [*(f"{step.model}: {'; '.join(step.reasons)}" for step in due.blocked), untouched]
        remedies = (within(step.remedy, branch) if branch else step.remedy for step in due.blocked)
        raise RunFailed("\n".join(lines), remedy="\n".join(remedies))

"""How a model's rows are written, by its kind. Sources are loaded: see `load`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from mere.pipeline.build import merge, scd2, whole, windows
from mere.pipeline.build.task import Task
from mere.pipeline.plan.steps import Action
from mere.project.kinds import Kind
from mere.windows import Spans


@dataclass(frozen=True)
class KindBuild:
    write: Callable[[Task], Iterator[Spans]]  # after each batch, the windows written so far
    # Where a run has built the table, and its input has gone on since, such a step begins with what was there before
    # the run: a history is to observe only the end, and rows that were appended may be gone from the input before they
    # were ever published.
    starts_over: Action | None = None


KINDS: Mapping[Kind, KindBuild] = {
    Kind.SEED: KindBuild(whole.build),
    Kind.FULL: KindBuild(whole.build),
    Kind.INCREMENTAL: KindBuild(windows.build),
    Kind.APPEND: KindBuild(whole.append, starts_over=Action.BLOCKED),
    Kind.MERGE: KindBuild(merge.build),
    Kind.SCD2: KindBuild(scd2.build, starts_over=Action.KEYS),
    Kind.VIEW: KindBuild(whole.make_view),
}

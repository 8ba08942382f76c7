"""What is due for a model, and why, by its kind: one module each, listed in `KINDS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mere.pipeline.plan.kinds import append, full, incremental, merge, scd2, source, view
from mere.pipeline.plan.kinds.inputs import Given
from mere.pipeline.plan.steps import Facts, Step
from mere.pipeline.state.state import State
from mere.project.kinds import Kind
from mere.project.model import Model


@dataclass(frozen=True)
class KindPlan:
    """How models of a kind are planned. The defaults are those of a table that is built as a whole."""

    # What is due of a table that is as it was built, by the model's present code.
    since_then: Callable[[Model, State, Given], Step] = full.since_then
    afresh: Callable[[Model, Given, tuple[str, ...]], Step] = full.afresh
    # The step, so that rows in quarantine are tried again by it, too.
    retried: Callable[[Step, Given, str], Step] = full.retried
    # Blocked, where nobody but the user can say what new code, or other settings, mean for rows that are there.
    new_code: Callable[[Model, str], Step] | None = None
    new_settings: Callable[[Model, State, Facts], Step | None] | None = None
    loses: str = ""  # by being built afresh


KINDS: Mapping[Kind, KindPlan] = {
    Kind.SEED: KindPlan(),
    Kind.FULL: KindPlan(),
    Kind.INCREMENTAL: KindPlan(incremental.since_then, incremental.afresh, incremental.retried),
    Kind.APPEND: KindPlan(append.since_then, retried=append.retried, new_code=append.new_code),
    Kind.MERGE: KindPlan(merge.since_then, retried=merge.retried),
    Kind.SCD2: KindPlan(scd2.since_then, scd2.afresh, new_code=scd2.new_code),
    Kind.VIEW: KindPlan(view.since_then),
    Kind.SOURCE: KindPlan(
        source.since_then,
        source.afresh,
        source.retried,
        new_settings=source.other_settings,
        loses="what was loaded may be gone",
    ),
}

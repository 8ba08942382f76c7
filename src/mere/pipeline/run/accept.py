"""Accepts a table as it is: rewrites the state, keeps the data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from mere.errors import UsageError
from mere.lake.lake import Lake
from mere.lake.log.commits import Commit
from mere.names import TableName
from mere.pipeline.plan.facts import LakeFacts
from mere.pipeline.plan.kinds.inputs import points_of
from mere.pipeline.state.layout import layout_of
from mere.pipeline.state.state import PROPERTY, Point, Points, State, settings_of, shape_of
from mere.project.graph import Graph
from mere.project.kinds import Kind
from mere.project.model import Model
from mere.windows import NEVER

States = dict[str | TableName, Mapping[str, str | None]]


def accepted(model: Model, facts: LakeFacts) -> State:
    """The state of a table that counts as built from what its code and its inputs are now."""
    standing = facts.standing(model.name)
    if standing is None:
        raise UsageError(f"{model} is not on {facts.ref}, so there is nothing to accept.", remedy=f"mere run {model}")
    if standing.view == model.kind.rules.stored:
        raise UsageError(f"{model} is {'a view' if standing.view else 'a table'} on {facts.ref}; the model is not.")
    if standing.state and standing.state.sample:
        raise UsageError(
            f"{model} was built from a part of the data, which cannot be accepted as all of it.",
            remedy=f"mere run {model}",
        )
    metadata = facts.tables.metadata(model.name)
    built = standing.state.built if standing.state else NEVER
    if model.time:
        built = built | facts.extent(model.name, model.time.column).widened(model.time.grain)
    inputs, observed, pending, left_out = points_of(model, facts), None, NEVER, dict[str, Point]()
    if standing.changed_by and standing.state and model.kind.rules.keeps_rows:
        # Its own rows are right as they stand; what is new for it still arrives.
        inputs, pending = standing.state.inputs, standing.state.pending
    if standing.state:
        inputs, left_out = _without_exchanged(model, standing.state, inputs, facts)
    if model.kind is Kind.SCD2:
        inputs, observed = _observed(model, standing.state, facts)
    return State(
        code=model.code,
        shape=shape_of(model),
        inputs=inputs,
        snapshot=metadata.current_id,
        run=standing.state.run if standing.state else "accepted",
        built=built,
        pending=pending,
        start=model.time.start if model.time else None,
        now=model.now.floor(facts.now) if model.now else None,
        null_times=model.time.nulls if model.time else None,
        observed=observed,
        layout=layout_of(model),
        audits=standing.state.audits if standing.state else None,
        accepted=left_out,
        settings=settings_of(model),
    )


def _without_exchanged(model: Model, state: State, now: Points, facts: LakeFacts) -> tuple[Points, dict[str, Point]]:
    """From where an append model goes on: it leaves out the rows that were exchanged, and takes those that are new."""
    names = [str(each.table) for each in model.inputs if each.new_rows]
    known = [name for name in names if name in now and name in state.inputs]
    waiting = [name for name in known if facts.new_rows(name, state.inputs[name])]
    seen = {name: state.inputs[name] if name in waiting else point for name, point in now.items()}
    return seen, {name: now[name] for name in waiting}


def _observed(model: Model, state: State | None, facts: LakeFacts) -> tuple[Points, datetime | None]:
    """Of a history: somebody may have mended its rows, but nobody has observed the inputs meanwhile."""
    if state is not None:
        return state.inputs, state.observed
    looks = facts.observations([each.table for each in model.inputs], {}, None)
    return points_of(model, facts), looks[-1].at if looks else None


def accept(lake: Lake, graph: Graph, names: Iterable[TableName], facts: LakeFacts, on: str) -> None:
    states: States = {name: {PROPERTY: accepted(graph.models[name], facts).to_json()} for name in names}
    if states:
        lake.set_properties(states, on=on)


def with_code(lake: Lake, graph: Graph, names: Iterable[TableName], facts: LakeFacts, on: str) -> Commit | None:
    """Only the code counts as built (`--forward-only`): what changed in the inputs is still to be dealt with."""
    states: States = {}
    for name in names:
        model, standing = graph.models[name], facts.standing(name)
        if model.kind.rules.keeps_rows and standing and standing.state:
            state = replace(standing.state, code=model.code, settings=settings_of(model))
            states[name] = {PROPERTY: state.to_json()}
    return lake.set_properties(states, on=on) if states else None

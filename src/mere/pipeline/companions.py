"""The tables that belong to another and are signed together with it: its quarantine, and the ledger of a source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mere.lake.guards import SAMPLE
from mere.lake.lake import Lake
from mere.names import TableName
from mere.pipeline.state import PROPERTY, State
from mere.pipeline.unfinished import form_of

Signatures = dict[str | TableName, Mapping[str, str | None]]


def signature(lake: Lake, branch: str, name: TableName, what: str, run: str, sample: bool) -> Signatures:
    """What is to be written into it, if it is there and is not what was signed last. `what` it is, in words."""
    tables = lake.at(branch)
    if name not in tables:
        return {}
    metadata = tables.metadata(name)
    state = State("", what, {}, metadata.current_id, run, sample=sample, form=form_of(metadata))
    old = State.from_json(metadata.properties.get(PROPERTY, ""))
    if old and replace(old, run=run) == state:
        return {}
    partial = {SAMPLE: str(sample).lower()} if sample or SAMPLE in metadata.properties else {}
    return {name: {PROPERTY: state.to_json(), **partial}}

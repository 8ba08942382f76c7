"""The task of a writer: the step, and the state of everything that it reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mere.lake.iceberg.metadata import Metadata
from mere.lake.storage.port import Storage
from mere.names import TableName
from mere.pipeline.plan.steps import Step
from mere.pipeline.quarantine.sieve import Sieve
from mere.pipeline.write.changes import Inputs
from mere.pipeline.write.query import Workshop
from mere.project.model import Model

# Of each input that is read by key: the key of the table itself, or of those behind the view, by their columns.
Keys = Mapping[TableName, Mapping[str, Mapping[str, str]]]


@dataclass(frozen=True)
class Task:
    step: Step
    inputs: Inputs
    keys: Keys
    read: dict[TableName, Metadata]  # the tables among the inputs, as they stand
    table: Metadata | None  # what stands there
    storage: Storage
    shop: Workshop
    sieve: Sieve
    retried: bool  # whether rows in quarantine are tried again

    @property
    def model(self) -> Model:
        return self.step.model

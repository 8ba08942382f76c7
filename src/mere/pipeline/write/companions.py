"""The companions of a table, signed together with it: its quarantine, and the ledger of a source."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mere.errors import RunFailed
from mere.lake.iceberg.metadata import Metadata
from mere.lake.iceberg.properties import SAMPLE
from mere.lake.lake import Lake
from mere.names import TableName
from mere.pipeline.state.state import PROPERTY, State
from mere.pipeline.state.unfinished import form_of
from mere.pipeline.write.table import expr, field_of
from mere.project.model import Model

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Signatures = dict[str | TableName, Mapping[str, str | None]]


def declared(model: Model, name: TableName, description: str, columns: Mapping[str, str]) -> Model:
    """The companion as a model is declared: whatever comes must fit in there."""
    return replace(
        model,
        name=name,
        description=description,
        columns=columns,
        contract={},
        key=(),
        partition_by=(),
        sort_by=(),
        audits=(),
    )


def standing(lake: Lake, branch: str, name: TableName, purpose: str, begun: bool) -> Metadata | None:
    """The table as it is there. One that mere did not make is left alone, unless this build has `begun` to write it."""
    tables = lake.at(branch)
    if name not in tables:
        return None
    metadata = tables.metadata(name)
    if begun or is_ours(metadata):
        return metadata
    raise RunFailed(
        f"{name} already exists, and mere did not make it: {purpose} cannot go there.",
        remedy=f"Give it another name: mere rename {name} NEW_NAME --on {branch}",
    )


def is_ours(metadata: Metadata) -> bool:
    return PROPERTY in metadata.properties and not metadata.is_view


def filled(rows: DataFrame, schema: StructType, but: Collection[str] = ()) -> DataFrame:
    """With NULL in the columns that only the table has, `but` those which get another name (given in lower case)."""
    for each in schema:
        if not field_of(rows.schema, each.name) and each.name.casefold() not in but:
            rows = rows.withColumn(each.name, expr("NULL").cast(each.dataType))
    return rows


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

"""Builds an incremental model: overwrites its windows, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mere.lake.iceberg.metadata import Metadata
from mere.lake.iceberg.properties import REPLACES
from mere.lake.iceberg.schema import partitionings
from mere.pipeline.build.task import Task
from mere.pipeline.plan.steps import Step
from mere.pipeline.state.layout import are_cut_at_windows, partitions
from mere.pipeline.write.query import Workshop, query, replace_all, within, within_its_windows, writer
from mere.pipeline.write.table import expr, fit, prepare
from mere.project.model import Model
from mere.sql.spelling.spark import name_of
from mere.windows import NEVER, Span, Spans, instant

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def build(task: Task) -> Iterator[Spans]:
    step, table, shop, model, done = task.step, task.table, task.shop, task.model, NEVER
    if step.timeless and not step.spans and not step.afresh:
        return
    for number, batch in enumerate(_batches(step)):
        frame = within_its_windows(model.time, query(model, batch, shop), batch)
        if number == 0:
            frame = prepare(model, frame, shop.spark, table, whole=step.afresh, breaking=step.breaking)
        else:
            frame = fit(model, frame, shop.spark)
        with task.sieve(frame, batch) as good:
            if number == 0 and step.afresh:
                replace_all(step, good)
            else:
                _exchange(step, good, batch, None if step.afresh else table, shop)
        done = done | Spans((batch,))
        yield done


def _batches(step: Step) -> Iterator[Span]:
    time = step.model.time
    assert time
    if not step.spans:  # there is no data yet, but there must be a table
        start = time.grain.floor(time.start) if time.start else instant("1970")
        yield Span(start, start)
    # Between windows that stand there already, others must be left alone; otherwise there is nothing in between.
    groups = [step.spans.windows(time.grain)] if step.afresh else [list(s.windows(time.grain)) for s in step.spans]
    for windows in groups:
        for first in range(0, len(windows), time.batch):
            batch = windows[first : first + time.batch]
            yield Span(batch[0].start, batch[-1].end)


def _exchange(step: Step, frame: DataFrame, span: Span, table: Metadata | None, shop: Workshop) -> None:
    """The rows of the windows in the span."""
    assert step.model.time
    window = within(frame.schema, step.model.time.column, span)
    if _are_files_cut(step.model, table, shop):
        writer(step, frame).overwrite(expr(window))
    else:
        # Two snapshots, which are published as one. The first may write rows again that were in a file with others.
        shop.spark.sql(f"DELETE FROM {name_of(step.model.name)} WHERE {window}")
        writer(step, frame).option(f"snapshot-property.{REPLACES}", "true").append()


def _are_files_cut(model: Model, table: Metadata | None, shop: Workshop) -> bool:
    """Whether each file that is live lies in one window. Of a table that was cut otherwise before, not all may."""
    declared = partitions(model)
    known = partitionings(table) if table else {}
    if all(are_cut_at_windows(model, parts) for parts in (*known.values(), declared)):
        return True
    live = shop.spark.sql(f"SELECT DISTINCT partition_spec_id FROM {name_of(model.name)}.manifests").collect()
    # One that is not known yet was made for this build.
    return all(are_cut_at_windows(model, known.get(row[0], declared)) for row in live)

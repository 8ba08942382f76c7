"""Builds models that are written in one go: a whole table, the new rows of an append model, the query of a view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mere.pipeline.build.task import Task
from mere.pipeline.plan.steps import Action
from mere.pipeline.state.state import Point
from mere.pipeline.write.query import query, replace_all, writer
from mere.pipeline.write.table import check_columns, comment, prepare
from mere.project.model import Model, Sql
from mere.sql.spelling.spark import name_of, quoted
from mere.windows import NEVER, Spans


def build(task: Task) -> Iterator[Spans]:
    step, shop = task.step, task.shop
    frame = query(task.model, None, shop)
    with task.sieve(prepare(task.model, frame, shop.spark, task.table, whole=True, breaking=step.breaking)) as good:
        replace_all(step, good)
    yield NEVER


def append(task: Task) -> Iterator[Spans]:
    step, shop, model = task.step, task.shop, task.model
    if step.action is not Action.ROWS:
        yield from build(task)
    else:
        rows = (task.inputs.since, task.inputs.to)
        if _has_new_rows(model, *rows):
            frame = query(model, None, shop, rows)
            with task.sieve(prepare(model, frame, shop.spark, task.table, whole=False, breaking=step.breaking)) as good:
                writer(step, good).append()
        yield NEVER
    if task.retried:
        task.sieve.take_back()


def _has_new_rows(model: Model, since: Mapping[str, Point], to: Mapping[str, Point]) -> bool:
    """Iceberg does not read from a snapshot to itself."""
    (table,) = (str(each.table) for each in model.inputs if each.new_rows or each.changes)
    return since[table].snapshot != to[table].snapshot


def make_view(task: Task) -> Iterator[Spans]:
    model, shop = task.model, task.shop
    assert isinstance(model.body, Sql)
    described = shop.spark.sql(model.body.text).schema
    check_columns(model, described, shop.spark, task.table, task.step.breaking)
    columns = ", ".join(f"{quoted(field.name)}{comment(model.columns.get(field.name, ''))}" for field in described)
    shop.spark.sql(
        f"CREATE OR REPLACE VIEW {name_of(model.name)} ({columns}){comment(model.description)} AS {model.body.text}"
    )
    yield NEVER

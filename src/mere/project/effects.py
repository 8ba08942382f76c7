"""What a model's settings do with the rows of its query: which version of a key is kept, which rows are quarantined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sqlglot import exp, parse_one

from mere.audits.quarantine import RowRule, row_rules
from mere.project.model import Model
from mere.sql.lineage.derivation import (
    ANY,
    NOTHING,
    ColumnName,
    Made,
    Origins,
    Output,
    Place,
    Relation,
    as_conditions,
    joined,
)
from mere.sql.lineage.spark_plan import PlanLineage
from mere.sql.spark.read import SparkView


def of_plan(model: Model, plan: PlanLineage) -> Relation:
    """What a PySpark model returned when it was built."""
    outputs = tuple(Output(name, Made(_used(origins))) for name, origins in plan.columns.items())
    tables = (ColumnName(each.table) for each in model.inputs if not each.lookup)
    return Relation(outputs, _used([*plan.rows, *tables]))


def _used(origins: Iterable[ColumnName]) -> Origins:
    node = exp.Placeholder()
    return {each: Place(node, node, "PLAN", each.column != ANY) for each in sorted(origins, key=str)}


def with_settings(model: Model, relation: Relation) -> Relation:
    """What comes of the query in the model's table."""
    rows = [relation.rows]
    rows += [_conditions(relation, exp.column(name), clause) for clause, name in _deciding(model, relation)]
    for rule in row_rules(model.audits, model.time.column if model.time else None):
        rows.append(_conditions(relation, parse_one(rule.bad, dialect=SparkView), "QUARANTINE"))
        rows.append(_looked_up(rule))
    begins = model.dump or model.updated_at
    since = relation.find(begins.lower()) if begins else None
    added = tuple(Output(name, since or NOTHING) for name in model.added_columns)
    return replace(relation, outputs=(*relation.outputs, *added), rows=joined(rows))


def _deciding(model: Model, relation: Relation) -> Iterator[tuple[str, str]]:
    if model.latest_by:
        yield from (("LATEST BY", name) for name in (model.latest_by, *model.key))
    if model.kind.rules.adds:
        seen = model.compare or (
            [model.updated_at] if model.updated_at and not model.dump else [each.name for each in relation.outputs]
        )
        dump = [model.dump] if model.dump else []
        yield from (("HISTORY", name) for name in dict.fromkeys((*model.key, *seen, *dump)))


def _conditions(relation: Relation, condition: exp.Expr, clause: str) -> Origins:
    found = [relation.find(column.name.lower()) for column in condition.find_all(exp.Column)]
    return joined(as_conditions(made, condition, clause) for made in found if made is not None)


def _looked_up(rule: RowRule) -> Origins:
    if rule.lookup is None:
        return {}
    place = Place(node := exp.column(rule.lookup.table.name), node, "QUARANTINE")
    keys = [ColumnName(rule.lookup.table, key) for _, key, _ in rule.lookup.pairs]
    return dict.fromkeys([*keys, ColumnName(rule.lookup.table)], place)

"""The columns of PIVOT and UNPIVOT."""

from __future__ import annotations

from sqlglot import exp

from mere.sql.lineage.derivation import NOTHING, Made, Output, Relation, as_conditions, joined, together
from mere.sql.lineage.expressions import Expressions
from mere.sql.lineage.resolve import Frame, Source


def pivoted(relation: Relation, pivot: exp.Pivot, expressions: Expressions, around: Frame) -> Relation:
    frame = Frame(around.ctes, around.outer)
    frame.add(Source(frozenset(), relation))
    return (
        _long(relation, pivot, expressions, frame)
        if pivot.args.get("unpivot")
        else _wide(relation, pivot, expressions, frame)
    )


def _wide(relation: Relation, pivot: exp.Pivot, expressions: Expressions, frame: Frame) -> Relation:
    """Rows are grouped by all columns that are neither summed up nor spread."""
    values = together(expressions.made(each, frame, each) for each in pivot.expressions)
    spread = joined(expressions.conditions(each.this, frame, "PIVOT") for each in pivot.args["fields"])
    rest = relation.without(each.name for each in pivot.find_all(exp.Column))
    made = Made(values.values, joined((spread, values.conditions)))
    outputs = tuple(Output(each.name, made) for each in pivot.args.get("columns") or [])
    rows = joined((relation.rows, as_conditions(rest.whole(), pivot, "PIVOT"), spread))
    return Relation((*rest.outputs, *outputs), rows, rest.opened, rest.other)


def _long(relation: Relation, pivot: exp.Pivot, expressions: Expressions, frame: Frame) -> Relation:
    field = pivot.args["fields"][0]
    taken = [each.this if isinstance(each, exp.PivotAlias) else each for each in field.expressions]
    rest = relation.without(each.name for each in pivot.find_all(exp.Column))
    names = [name for each in pivot.expressions for name in (each.expressions or [each])]
    groups = [each.expressions or [each] for each in taken]
    outputs = [
        Output(
            name.name, together(expressions.made(group[at], frame, group[at]) for group in groups if at < len(group))
        )
        for at, name in enumerate(names)
    ]
    # A row whose values are all NULL is left out.
    rows = [expressions.conditions(each, frame, "UNPIVOT") for each in taken]
    label = Output(field.this.name, NOTHING)
    return Relation((*rest.outputs, label, *outputs), joined((relation.rows, *rows)), rest.opened, rest.other)

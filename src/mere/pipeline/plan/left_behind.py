"""Tables that mere built and that no model makes any more. They stay until the user drops them."""

from __future__ import annotations

from mere.names import TableName
from mere.pipeline.plan.steps import Facts, LeftBehind
from mere.project.graph import Graph
from mere.sources.source import Source


def left_behind(graph: Graph, facts: Facts) -> tuple[LeftBehind, ...]:
    """A model of the same code under another name is taken for the old one, renamed."""
    built = facts.built_by_mere()
    # Two sources that are read alike have one code: where they are is no part of it.
    models = [model for model in graph.models.values() if not isinstance(model.body, Source)]
    new = {model.code: model.name for model in models if model.name not in built}
    renamed = {name: new[state.code] for name, state in built.items() if state.code in new and name not in graph.models}
    made = {table for model in graph.models.values() for table in model.writes}
    # What belongs to a table is renamed together with it.
    left = [name for name in sorted(built) if name not in made and name.owner not in renamed]
    return tuple(LeftBehind(name, renamed.get(name), _still_there(name.quarantined, graph)) for name in left)


def _still_there(name: TableName | None, graph: Graph) -> TableName | None:
    return name if name in graph.models else None

"""Tables that mere built and that nothing in the project makes any more. They stay until somebody says otherwise."""

from __future__ import annotations

from mere.names import TableName
from mere.pipeline.steps import Facts, LeftBehind
from mere.project.graph import Graph


def left_behind(graph: Graph, facts: Facts) -> tuple[LeftBehind, ...]:
    """A model of the same code under another name is taken for the old one, renamed."""
    built = facts.built_by_mere()
    new = {model.code: name for name, model in graph.models.items() if name not in built}
    renamed = {name: new[state.code] for name, state in built.items() if state.code in new and name not in graph.models}
    made = {table for model in graph.models.values() for table in model.writes}
    # A quarantine is renamed together with its table.
    left = [name for name in sorted(built) if name not in made and name.quarantined not in renamed]
    return tuple(LeftBehind(name, renamed.get(name), _still_there(name.quarantined, graph)) for name in left)


def _still_there(name: TableName | None, graph: Graph) -> TableName | None:
    return name if name in graph.models else None

"""Lineage table by table."""

from __future__ import annotations

import time

from mere.api.lineage.tables import TableLineage
from mere.names import TableName
from mere.project.graph import Graph
from mere.project.kinds import Kind
from mere.project.model import Input, Model, Sql


def test_a_thousand_models_are_drawn_quickly_and_as_schemas_where_mermaid_would_draw_nothing() -> None:
    names = [f"layer{schema}.t{at}" for schema in range(10) for at in range(100)]
    models = {}
    for at, name in enumerate(names):
        read = [names[at - back] for back in (1, 60, 120) if at >= back]
        inputs = tuple(Input(TableName.parse(each), 1) for each in read)
        models[TableName.parse(name)] = Model(TableName.parse(name), Kind.FULL, "models.sql", Sql("", 1), inputs)
    tables = TableLineage("shop", Graph(models), set(models))
    began = time.perf_counter()
    text, drawn = tables.mermaid(), tables.html()
    assert time.perf_counter() - began < 5
    assert text.count("\n") < 40
    assert 's0["layer0#58; 100 tables"]\n' in text
    assert "  s0 -- 141 --> s1\n" in text
    assert drawn.count("<path id=") == len(tables.edges) == 2819

"""A session's temporary views, as the catalogs list them beside the lake's own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mere.names import TableName
from mere.serve.builtin.names import TEMPORARY
from mere.serve.catalog.inventory import Column, Inventory, Relation, Schema, Shape
from mere.serve.catalog.oids import oid_of
from mere.serve.catalog.types import ColumnType, built_in
from mere.serve.protocol.port import Field


def relation(name: str, sql: str, fields: Iterable[Field]) -> Relation:
    columns = tuple(
        Column(number, each.name, ColumnType(each.oid, each.modifier, _dimensions(each.oid)), False, None)
        for number, each in enumerate(fields, 1)
    )
    return Relation(oid_of("temporary view", name), TableName(TEMPORARY, name), True, Shape(columns, sql=sql))


def _dimensions(oid: int) -> int:
    known = built_in().get(oid)
    return 1 if known is not None and known.is_array else 0


def added(inventory: Inventory, views: tuple[Relation, ...]) -> Inventory:
    schema = Schema(oid_of("temporary", TEMPORARY), TEMPORARY)
    return replace(inventory, schemas=(*inventory.schemas, schema), relations=(*inventory.relations, *views))

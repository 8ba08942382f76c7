"""A ref as a catalog of other engines: the properties by which Spark and PyIceberg reach it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mere.lake.guards import PROPERTIES

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog


@dataclass(frozen=True)
class SparkCatalog:
    """A catalog of a Spark session: its name is the ref's, its properties come without Spark's prefix."""

    name: str
    properties: Mapping[str, str]


def spark_catalog(name: str, database: Path, warehouse: str) -> SparkCatalog:
    return SparkCatalog(
        name,
        {
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{database}?journal_mode=WAL&busy_timeout=30000&synchronous=FULL",
            "jdbc.schema-version": "V1",
            "warehouse": warehouse,
            # A publish must be seen by the next query.
            "cache-enabled": "false",
            # Two branches may each create a table of one name.
            "unique-table-location": "true",
            **{f"table-override.{name}": value for name, value in PROPERTIES.items()},
        },
    )


def pyiceberg_catalog(name: str, database: Path, warehouse: str) -> SqlCatalog:
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog(
        name,
        uri=f"sqlite:///{database}?timeout=30",
        warehouse=warehouse,
        init_catalog_tables="false",
    )

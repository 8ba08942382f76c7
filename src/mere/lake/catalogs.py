"""A ref as a catalog of Spark: the properties by which it is reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mere.lake.guards import PROPERTIES


@dataclass(frozen=True)
class SparkCatalog:
    """A catalog of a Spark session: its name is the ref's, its properties come without Spark's prefix."""

    name: str
    properties: Mapping[str, str]


def spark_catalog(name: str, jdbc: Mapping[str, str], warehouse: str) -> SparkCatalog:
    """`jdbc`: where the database is, and who may use it."""
    return SparkCatalog(
        name,
        {
            "type": "jdbc",
            **jdbc,
            "jdbc.schema-version": "V1",
            "warehouse": warehouse,
            # A publish must be seen by the next query.
            "cache-enabled": "false",
            # Two branches may each create a table of one name.
            "unique-table-location": "true",
            **{f"table-override.{name}": value for name, value in PROPERTIES.items()},
        },
    )

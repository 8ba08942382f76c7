"""A ref as a Spark catalog: the properties with which Spark reaches it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mere.config import S3Settings
from mere.lake.refs.guards import PROPERTIES
from mere.lake.storage.s3 import spark_properties


@dataclass(frozen=True)
class SparkCatalog:
    """A catalog of a Spark session: its name is the ref's, its properties come without Spark's prefix."""

    name: str
    properties: Mapping[str, str] = field(repr=False)  # passwords and keys among them


def spark_catalog(name: str, jdbc: Mapping[str, str], warehouse: str, s3: S3Settings | None = None) -> SparkCatalog:
    """`jdbc`: where the database is, and who may use it; `s3`: the same of the files, if they are there."""
    return SparkCatalog(
        name,
        {
            "type": "jdbc",
            **jdbc,
            "jdbc.schema-version": "V1",
            "warehouse": warehouse,
            **(spark_properties(s3) if s3 else {}),
            # A publish must be seen by the next query.
            "cache-enabled": "false",
            # Two branches may each create a table of one name.
            "unique-table-location": "true",
            **{f"table-override.{name}": value for name, value in PROPERTIES.items()},
        },
    )

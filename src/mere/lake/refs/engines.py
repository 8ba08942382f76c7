"""A ref as a Spark catalog: the properties with which Spark reaches it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mere.config import S3Settings
from mere.lake.refs.guards import PROPERTIES
from mere.lake.storage.s3 import SPARK_KEYS, spark_properties
from mere.sparkconfig import RestSettings


@dataclass(frozen=True)
class SparkCatalog:
    """A catalog of a Spark session: its name is the ref's, its properties come without Spark's prefix."""

    name: str
    properties: Mapping[str, str] = field(repr=False)  # passwords and keys among them


def by_jdbc(jdbc: Mapping[str, str], warehouse: str) -> dict[str, str]:
    """The way to the database itself. `jdbc`: where it is, and who may use it."""
    return {"type": "jdbc", **jdbc, "jdbc.schema-version": "V1", "warehouse": warehouse}


def by_rest(name: str, settings: RestSettings) -> dict[str, str]:
    """The way to a server of which every ref is a warehouse."""
    uri = settings.uri or ""
    # Also without a token: Iceberg's client of signatures keeps for all catalogs of a JVM what the first of them says
    # of this, and would send nobody's token after one that had none.
    oauth = {
        "rest.auth.type": "oauth2",
        "oauth2-server-uri": f"{uri}/v1/oauth/tokens",
        "token-refresh-enabled": "false",
    }
    own = {"type": "rest", "uri": uri, "warehouse": name, "rest-metrics-reporting-enabled": "false"}
    return {**own, **oauth, **({"token": settings.token} if settings.token else {})}


def spark_catalog(
    name: str, way: Mapping[str, str], s3: S3Settings | None = None, *, signed: bool = False
) -> SparkCatalog:
    """`s3`: where the files are, and who may use them, unless requests for them are `signed`."""
    files = spark_properties(s3) if s3 else {}
    return SparkCatalog(
        name,
        {
            **way,
            **({key: value for key, value in files.items() if key not in SPARK_KEYS} if signed else files),
            # A publish must be seen by the next query.
            "cache-enabled": "false",
            # Two branches may each create a table of one name.
            "unique-table-location": "true",
            **{f"table-override.{name}": value for name, value in PROPERTIES.items()},
        },
    )

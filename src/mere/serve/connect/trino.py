"""Trino's settings: as a file of its catalogs, or as the statement that makes a catalog while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from mere.config import S3Settings
from mere.lake.lake import Lake
from mere.lake.place import folders
from mere.names import RefExpression
from mere.serve.connect.place import TOKEN, Place
from mere.sql.spelling.standard import literal, quoted

PASSWORD = "MERE_CATALOG_PASSWORD"  # the environment variable in which Trino finds that of the catalog's database
_DRIVERS = {"postgresql": "org.postgresql.Driver", "sqlite": "org.sqlite.JDBC"}
# Trino would delete the files that this ref does not need, and others may; and it would commit twice for each insert.
_GUARDS = {
    "iceberg.remove-orphan-files.min-retention": "36500d",
    "iceberg.extended-statistics.collect-on-write": "false",
}
_KEYS = {"s3.aws-access-key": "${ENV:AWS_ACCESS_KEY_ID}", "s3.aws-secret-key": "${ENV:AWS_SECRET_ACCESS_KEY}"}


def by_rest(place: Place) -> dict[str, str]:
    settings = {
        "iceberg.catalog.type": "rest",
        # Below this address, the server knows the name that the catalog has in Trino: views name it.
        "iceberg.rest-catalog.uri": f"{place.uri}/trino/{place.catalog}",
        "iceberg.rest-catalog.warehouse": place.ref,
    }
    if not place.trusted:
        settings |= {
            "iceberg.rest-catalog.security": "OAUTH2",
            "iceberg.rest-catalog.oauth2.token": f"${{ENV:{TOKEN}}}",
        }
    keys: dict[str, str] = {}
    if place.on_s3 and place.s3 is not None and place.s3.vends and place.s3.session_token:
        settings |= {"iceberg.rest-catalog.vended-credentials-enabled": "true"}
    elif place.on_s3:  # of keys that the server hands out, Trino takes only those with a session token
        keys = _KEYS
    return {**settings, **_GUARDS, **_files(place.s3 if place.on_s3 else None, on_s3=place.on_s3), **keys}


def by_jdbc(lake: Lake, ref: str) -> dict[str, str]:
    """Straight to the database of the lake's catalog, without a server."""
    found = dict(lake.store.jdbc)
    url = found.pop("uri")
    user, password = found.pop("jdbc.user", None), found.pop("jdbc.password", None)
    more = {name.removeprefix("jdbc."): value for name, value in found.items() if name.startswith("jdbc.")}
    if more:
        url += ("&" if "?" in url else "?") + urlencode(more, quote_via=quote)
    settings = {
        "iceberg.catalog.type": "jdbc",
        "iceberg.jdbc-catalog.catalog-name": lake.catalog_name(RefExpression.parse(ref).text),
        "iceberg.jdbc-catalog.driver-class": _DRIVERS[url.split(":")[1]],
        "iceberg.jdbc-catalog.connection-url": url,
        **({"iceberg.jdbc-catalog.connection-user": user} if user else {}),
        **({"iceberg.jdbc-catalog.connection-password": f"${{ENV:{PASSWORD}}}"} if password else {}),
        "iceberg.jdbc-catalog.default-warehouse-dir": folders.uri(lake.warehouse),
    }
    s3 = lake.storage.s3
    return {**settings, **_GUARDS, **_files(s3, on_s3=s3 is not None), **(_KEYS if s3 else {})}


def _files(s3: S3Settings | None, *, on_s3: bool) -> dict[str, str]:
    if not on_s3:
        return {"fs.native-local.enabled": "true", "local.location": "/"}
    settings = {"fs.native-s3.enabled": "true"}
    if s3 is not None:
        settings |= {"s3.region": s3.region, "s3.path-style-access": str(s3.uses_path_style).lower()}
        settings |= {"s3.endpoint": s3.endpoint} if s3.endpoint else {}
    return settings


def as_file(catalog: str, settings: Mapping[str, str]) -> str:
    lines = [f"# etc/catalog/{catalog}.properties", "connector.name=iceberg"]
    return "\n".join([*lines, *(f"{name}={value}" for name, value in settings.items())]) + "\n"


def as_sql(catalog: str, settings: Mapping[str, str]) -> str:
    """For a Trino with catalog.management=dynamic."""
    given = ",\n".join(f"  {quoted(name)} = {literal(value)}" for name, value in settings.items())
    return f"CREATE CATALOG {quoted(catalog)} USING iceberg WITH (\n{given}\n);\n"

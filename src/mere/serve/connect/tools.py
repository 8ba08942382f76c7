"""The tools, each with its settings. None contains a token or password: these come from the environment, or the
tool asks for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from mere.engine.jvm import jars
from mere.serve.connect import trino
from mere.serve.connect.place import TOKEN, Place
from mere.sql.spelling.standard import literal


@dataclass(frozen=True)
class Tool:
    """`text`: what it is told. `token`: it comes by REST, with a token; the others by the wire of Postgres."""

    text: Callable[[Place], str]
    token: bool = True


def _duckdb(place: Place) -> str:
    # DuckDB has a database `main` already, in the schema of every one.
    name = "lake" if place.catalog == "main" else place.catalog
    options = [f"ENDPOINT {literal(place.uri)}", "AUTHORIZATION_TYPE 'none'" if place.trusted else "SECRET mere"]
    lines = ["INSTALL iceberg;", "LOAD iceberg;"]
    if not place.trusted:
        lines += [
            "-- Only DuckDB's shell has getenv. In Python:",
            f"-- connection.execute('SET VARIABLE mere_token = ?', [os.environ['{TOKEN}']])",
            f"SET VARIABLE mere_token = getenv('{TOKEN}');",
            "CREATE SECRET mere (TYPE iceberg, TOKEN getvariable('mere_token'));",
        ]
    lines += [f"ATTACH {literal(place.ref)} AS {name} (TYPE iceberg, {', '.join(options)});", "SHOW ALL TABLES;"]
    return _lines(*lines)


def _pyiceberg(place: Place) -> str:
    options = {"type": "rest", "uri": place.uri, "warehouse": place.ref}
    given = [f"    {name}={_text(value)}," for name, value in options.items()]
    given += [] if place.trusted else [f'    token=os.environ["{TOKEN}"],']
    given += ['    **{"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"},'] if place.on_s3 else []
    head = [] if place.trusted else ["import os", ""]
    return _lines(
        *head,
        "from pyiceberg.catalog import load_catalog",
        "",
        "catalog = load_catalog(",
        f"    {_text(place.catalog)},",
        *given,
        ")",
        "print(catalog.list_namespaces())",
    )


def _spark(place: Place) -> str:
    packages = ",".join(jar.coordinate for jar in ((jars.ICEBERG, jars.AWS) if place.on_s3 else (jars.ICEBERG,)))
    settings = {"spark.jars.packages": packages, "spark.sql.extensions": _EXTENSIONS}
    builder = [f"    .config({_text(name)}, {_text(value)})" for name, value in settings.items()]
    return _python_spark(place, ["SparkSession.builder", *builder, "    .getOrCreate()"])


def _spark_connect(place: Place) -> str:
    comment = [
        "# The server of Spark Connect needs the packages of `mere connect spark`, and reaches the lake itself.",
        'server = "sc://localhost:15002"',
    ]
    return _python_spark(place, ["SparkSession.builder.remote(server).getOrCreate()"], comment)


_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def _python_spark(place: Place, builder: list[str], comment: list[str] | None = None) -> str:
    """The token is told to the session when it is there: what it starts with is seen by everybody on the machine."""
    prefix = f"spark.sql.catalog.{place.catalog}"
    settings = {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "rest",
        f"{prefix}.uri": place.uri,
        f"{prefix}.warehouse": place.ref,
        f"{prefix}.cache-enabled": "false",
    }
    head = [] if place.trusted else ["import os", ""]
    return _lines(
        *head,
        "from pyspark.sql import SparkSession",
        "",
        *(comment or []),
        *_assigned("spark", builder),
        *(f"spark.conf.set({_text(name)}, {_text(value)})" for name, value in settings.items()),
        *([] if place.trusted else [f'spark.conf.set({_text(f"{prefix}.token")}, os.environ["{TOKEN}"])']),
        f'spark.sql("USE {place.catalog}")',
        'spark.sql("SHOW NAMESPACES").show()',
    )


def _assigned(name: str, expression: list[str]) -> list[str]:
    if len(expression) == 1:
        return [f"{name} = {expression[0]}"]
    first, *rest = expression
    return [f"{name} = (", f"    {first}", *rest, ")"]


def _trino(place: Place) -> str:
    return trino.as_file(place.catalog, trino.by_rest(place))


def _flink(place: Place) -> str:
    options = {"type": "iceberg", "catalog-type": "rest", "uri": place.uri, "warehouse": place.ref}
    given = [f"{literal(name)} = {literal(value)}" for name, value in options.items()]
    head = [] if place.trusted else ["import os", ""]
    given += [] if place.trusted else [f"'token' = '{{os.environ[\"{TOKEN}\"]}}'"]
    return _lines(
        *head,
        "from pyflink.table import EnvironmentSettings, TableEnvironment",
        "",
        "tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())",
        f'tables.execute_sql({"" if place.trusted else "f"}"""',
        f"    CREATE CATALOG {place.catalog} WITH (",
        ",\n".join(f"        {each}" for each in given),
        "    )",
        '""")',
        f"tables.use_catalog({_text(place.catalog)})",
    )


def _psql(place: Place) -> str:
    options = {"host": place.host, "port": place.port, "dbname": place.ref, "user": place.user}
    options |= {"sslmode": "require"} if place.tls else {}
    told = " ".join(f"{name}={_conninfo(str(value))}" for name, value in options.items())
    return _lines("psql '" + told.replace("'", "'\\''") + "'")


def _conninfo(value: str) -> str:
    if value and not set(value) & set(" '\\"):
        return value
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _jdbc(place: Place) -> str:
    options = {"user": place.user} | ({"sslmode": "require"} if place.tls else {})
    return _lines(f"jdbc:postgresql://{place.address}/{place.database}?{urlencode(options, quote_via=quote)}")


def _superset(place: Place) -> str:
    """As Superset's API takes it: POST /api/v1/database/. Every ref is a catalog of it."""
    uri = f"postgresql+psycopg2://{quote(place.user, safe='')}@{place.address}/{place.database}"
    uri += "?sslmode=require" if place.tls else ""
    return _json(
        {
            "database_name": f"lake {place.ref}",
            "sqlalchemy_uri": uri,
            "extra": json.dumps({"allow_multi_catalog": True}),
            "expose_in_sqllab": True,
        }
    )


def _metabase(place: Place) -> str:
    """As Metabase's API takes it: POST /api/database."""
    details = {
        "host": place.host,
        "port": place.port,
        "dbname": place.ref,
        "user": place.user,
        "ssl": place.tls,
        "schema-filters-type": "all",
    }
    return _json({"engine": "postgres", "name": f"lake {place.ref}", "details": details})


def _dbeaver(place: Place) -> str:
    """A separator cannot be quoted there: what has one goes into the URL, where it is encoded."""
    options = {
        "driver": "postgresql",
        "name": f"lake {place.ref}",
        "url": _jdbc(place).strip(),
        "savePassword": "false",
        "connect": "true",
    }
    told = "|".join(f"{name}={value}" for name, value in options.items())
    return _lines(f"dbeaver -con '{told}'")


def _power_bi(place: Place) -> str:
    def text(value: str) -> str:
        return '"' + value.replace('"', '""') + '"'

    return _lines(
        "let", f"    Source = PostgreSQL.Database({text(place.address)}, {text(place.ref)})", "in", "    Source"
    )


TOOLS: Mapping[str, Tool] = {
    "duckdb": Tool(_duckdb),
    "pyiceberg": Tool(_pyiceberg),
    "spark": Tool(_spark),
    "spark-connect": Tool(_spark_connect),
    "trino": Tool(_trino),
    "flink": Tool(_flink),
    "psql": Tool(_psql, token=False),
    "jdbc": Tool(_jdbc, token=False),
    "superset": Tool(_superset, token=False),
    "metabase": Tool(_metabase, token=False),
    "dbeaver": Tool(_dbeaver, token=False),
    "power-bi": Tool(_power_bi, token=False),
}


def _text(value: str) -> str:
    """In Python."""
    return json.dumps(value)


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


def _lines(*lines: str) -> str:
    return "\n".join(lines) + "\n"

"""The rows of the proof as tables of a lake, which Trino reads over REST."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

from mere.lake.lake import Lake
from mere.serve.connect import trino
from mere.serve.connect.place import Place
from tests.lake.proof.engines import VIEWS, InTrino
from tests.serve.iceberg.rest import serving
from tests.services.trino import Trino

_ZONE = "America/New_York"  # what a view gives does not depend on it


@contextmanager
def in_trino(server: Trino, lake: Lake, spark: Any) -> Iterator[InTrino]:
    """`spark`: on main of the lake, with the views that `prepare` makes."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS main.proof")
    for name in ("vals", *VIEWS):
        spark.sql(f"CREATE TABLE main.proof.{name} USING iceberg AS SELECT * FROM {name}")
    with serving(lake) as rest:
        place = Place("main", "x", host="127.0.0.1", http_port=urlsplit(rest.uri).port or 0, trusted=True)
        with closing(server.connect()) as connection:
            connection.fetchall(trino.as_sql("proof", trino.by_rest(place)).strip().rstrip(";"))
        with closing(server.connect("proof", "proof", zone=_ZONE)) as session:
            yield InTrino(session)
        with closing(server.connect()) as connection:  # the first one was idle for too long
            connection.fetchall("DROP CATALOG proof")

"""One shop, served twice: by a real Postgres, and by the gateway from a lake."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from mere.serve.builtin.names import OWNER_NAME
from mere.serve.session.backend import LakeBackend
from tests.serve import shop
from tests.serve.served import served
from tests.services.postgres import Postgres

CLIENT = "ann"  # a name that no schema has: it would come first in the search path


@pytest.fixture(scope="session")
def shop_in_postgres(postgres_server: Postgres) -> str:
    """Its URL. Everything in it belongs to whom everything in a lake belongs to."""
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {OWNER_NAME} SUPERUSER LOGIN PASSWORD '{OWNER_NAME}'")
        connection.execute(f"CREATE ROLE {CLIENT} SUPERUSER LOGIN PASSWORD '{CLIENT}'")
        connection.execute(f"CREATE DATABASE shop OWNER {OWNER_NAME}")
        # Of the whole server: the catalogs tell what is set for one database.
        connection.execute('ALTER SYSTEM SET search_path = "$user", public, gold, silver')
        connection.execute("ALTER SYSTEM SET TimeZone = 'UTC'")
        connection.execute("SELECT pg_reload_conf()")
    where = f"127.0.0.1:{postgres_server.port}/shop"
    with psycopg.connect(f"postgresql://{OWNER_NAME}:{OWNER_NAME}@{where}", autocommit=True) as connection:
        connection.execute(shop.POSTGRES)
        connection.execute(shop.tables_of_the_lake())
    return f"postgresql://{CLIENT}:{CLIENT}@{where}"


@pytest.fixture(scope="session")
def shop_in_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the gateway: a branch has the name of the database in Postgres."""
    with shop.create(tmp_path_factory.mktemp("shop")) as lake, served(LakeBackend(lake)) as running:
        lake.branch("shop")
        yield f"postgresql://{CLIENT}@127.0.0.1:{running.port}/shop"

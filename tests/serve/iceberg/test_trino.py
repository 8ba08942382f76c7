"""A real Trino: every ref is a catalog of it, by the settings that `mere connect trino` prints."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from mere.lake.lake import Lake
from mere.serve.connect import trino
from mere.serve.connect.place import Place
from tests.lake import orders, places
from tests.lake.query.test_views import view
from tests.serve.iceberg.rest import Rest, roles, serving
from tests.serve.iceberg.test_duckdb import attached
from tests.serve.iceberg.test_read import catalog as pyiceberg_catalog
from tests.services.trino import Connection, Trino, TrinoError

_NUMBERS = itertools.count()


MERGE = """MERGE INTO gold.orders t USING (VALUES (5, 'due'), (6, 'el')) AS s(id, customer) ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET customer = s.customer
    WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.customer, 9e0)"""


class Engine:
    """A Trino that has refs of one lake as catalogs, under names that no other test has."""

    def __init__(self, server: Trino) -> None:
        self.server = server
        self.prefix = f"t{next(_NUMBERS)}_"
        self.made: list[str] = []

    def create(self, statement: str, name: str) -> str:
        """The catalog of a statement that `mere connect` prints, under a name of this test's."""
        ours_ = f"{self.prefix}{name}"
        named = statement.replace(f'CATALOG "{name}"', f'CATALOG "{ours_}"').replace(
            f"/trino/{name}'", f"/trino/{ours_}'"
        )
        with closing(self.server.connect()) as connection:
            connection.fetchall(named.strip().rstrip(";"))
        self.made.append(ours_)
        return ours_

    def rest(self, at: Rest, ref: str, *, token: str | None = None, lake: Lake | None = None) -> str:
        s3 = lake.storage.s3 if lake else None
        port = urlsplit(at.uri).port or 0
        place = Place(ref, "x", host="127.0.0.1", http_port=port, trusted=token is None, on_s3=s3 is not None, s3=s3)
        statement = trino.as_sql(place.catalog, trino.by_rest(place))
        secrets = {"MERE_TOKEN": token or ""}
        if s3 is not None:
            secrets |= {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key}
        for variable, secret in secrets.items():
            statement = statement.replace(f"${{ENV:{variable}}}", secret)
        return self.create(statement, place.catalog)

    def connect(self, catalog: str, *, zone: str = "America/New_York") -> Connection:
        return self.server.connect(catalog, zone=zone)

    def rows(self, catalog: str, sql: str) -> list[tuple[Any, ...]]:
        with closing(self.connect(catalog)) as connection:
            return connection.fetchall(sql)

    def drop(self) -> None:
        for each in self.made:
            with closing(self.server.connect()) as connection:
                connection.fetchall(f"DROP CATALOG {each}")


@pytest.fixture
def engine(trino_server: Trino) -> Iterator[Engine]:
    found = Engine(trino_server)
    yield found
    found.drop()


MakeLake = Callable[[str], Lake]


def fill(lake: Lake) -> None:
    """`gold.orders`; on a disk by the catalog over REST, which names files by URIs."""
    if lake.storage.s3 is not None:
        orders.write(lake, "gold.orders", orders.ORDERS)
        return
    with serving(lake) as rest:
        lake.branch("filled")
        found = pyiceberg_catalog(rest, "filled")
        found.create_namespace("gold")
        found.create_table("gold.orders", orders.ORDERS.schema).append(orders.ORDERS)
    lake.publish("filled")


@pytest.fixture
def make_lake(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[MakeLake]:
    made = []

    def make(kind: str) -> Lake:
        place = places.place(kind, tmp_path, request)
        lake = place.create()
        fill(lake)
        lake.branch("dev")
        made.append(lake)
        return lake

    yield make
    for each in made:
        each.close()


@pytest.mark.service
@pytest.mark.parametrize("kind", [places.LOCAL, places.POSTGRES, places.S3])
def test_a_ref_is_read_and_written_and_each_statement_is_a_commit(
    engine: Engine, make_lake: MakeLake, kind: str
) -> None:
    lake = make_lake(kind)
    with serving(lake) as rest:
        dev = engine.rest(rest, "dev", lake=lake)
        before = len(list(lake.log("dev")))
        for sql in (
            "CREATE SCHEMA silver",
            "CREATE TABLE silver.copy WITH (partitioning = ARRAY['customer']) AS SELECT * FROM gold.orders",
            "CREATE TABLE silver.empty (id INTEGER, at TIMESTAMP(6) WITH TIME ZONE)",
            "INSERT INTO gold.orders VALUES (4, 'cy', 1e0), (5, 'di', 2e0)",
            "UPDATE gold.orders SET amount = 7 WHERE id = 4",
            "DELETE FROM gold.orders WHERE id = 1",
            MERGE,
            "ALTER TABLE silver.copy ADD COLUMN note VARCHAR",
            "ALTER TABLE silver.copy RENAME TO silver.copied",
            "DROP TABLE silver.empty",
        ):
            engine.rows(dev, sql)
        found = orders.rows(lake, "select id, customer, amount from gold.orders order by id", "dev")
        assert found == [(2, "bob", 20.0), (3, "ann", None), (4, "cy", 7.0), (5, "due", 2.0), (6, "el", 9.0)]
        assert engine.rows(dev, "SELECT id, customer, amount FROM gold.orders ORDER BY id") == found
        assert orders.rows(lake, "select count(*), count(note) from silver.copied", "dev") == [(3, 0)]
        made = list(lake.log("dev"))[:-before]
        assert [re.sub(r" \(Trino.*", "", each.message or "") for each in reversed(made)] == [
            "create namespace silver",
            "create silver.copy",
            "create silver.empty",
            "append gold.orders",
            "overwrite gold.orders",
            "delete gold.orders",
            "overwrite gold.orders",
            "alter silver.copy",
            "rename silver.copy to silver.copied",
            "drop silver.empty",
        ]
        assert {each.author for each in made} == {next(iter(lake.log("dev"))).author}
        assert "(Trino 476 for tests)" in (made[3].message or "")
        assert orders.rows(lake, "select count(*) from gold.orders", "main") == [(3,)]


@pytest.mark.service
def test_keys_with_a_token_are_handed_out_by_the_server(
    engine: Engine, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = places.place(places.S3, tmp_path, request)
    assert place.s3 is not None
    with replace(place, s3=replace(place.s3, session_token="a-token", vends=True)).create() as lake:
        fill(lake)
        lake.branch("dev")
        with serving(lake) as rest:
            dev = engine.rest(rest, "dev", lake=lake)
            engine.rows(dev, "CREATE TABLE gold.copy AS SELECT * FROM gold.orders")
            assert engine.rows(dev, "SELECT count(*) FROM gold.copy") == [(3,)]


@pytest.mark.service
def test_time_travels_by_snapshots_times_and_commits(engine: Engine, make_lake: MakeLake) -> None:
    lake = make_lake(places.LOCAL)
    with serving(lake) as rest:
        dev, main_before = engine.rest(rest, "dev"), engine.rest(rest, "main~1")
        engine.rows(dev, "DELETE FROM gold.orders WHERE id > 1")
        ((first, at),) = engine.rows(
            dev, 'SELECT snapshot_id, committed_at FROM gold."orders$snapshots" ORDER BY committed_at LIMIT 1'
        )
        assert engine.rows(dev, "SELECT count(*) FROM gold.orders") == [(1,)]
        assert engine.rows(dev, f"SELECT count(*) FROM gold.orders FOR VERSION AS OF {first}") == [(3,)]
        travel = f"SELECT count(*) FROM gold.orders FOR TIMESTAMP AS OF TIMESTAMP '{at:%Y-%m-%d %H:%M:%S.%f} UTC'"
        assert engine.rows(dev, travel) == [(3,)]
        assert len(engine.rows(dev, 'SELECT * FROM gold."orders$history"')) == 2
        assert len(engine.rows(dev, 'SELECT file_path FROM gold."orders$files"')) == 2
        assert ("gold",) not in engine.rows(main_before, "SHOW SCHEMAS")


@pytest.mark.service
def test_a_role_that_may_not_write_main_is_refused(engine: Engine, tmp_path: Path) -> None:
    from datetime import timedelta

    from mere.serve.access.tokens import Tokens
    from mere.serve.access.users import Users

    users = Users(tmp_path / "users.json")
    users.add("ann", "a long secret")
    tokens = Tokens(Tokens.beside(users.path))
    _, token = tokens.create("ann", None, timedelta(days=1))
    declared = roles("roles: {analyst: {tables: '*', write: {refs: [dev], schemas: [gold]}}}\nusers: {ann: analyst}\n")
    with Lake.create(tmp_path / "lake") as lake:
        fill(lake)
        lake.branch("dev")
        with serving(lake, users, declared, tokens) as rest:
            main, dev = (engine.rest(rest, ref, token=token) for ref in ("main", "dev"))
            engine.rows(dev, "INSERT INTO gold.orders VALUES (4, 'cy', 1e0)")
            with pytest.raises(TrinoError, match="may not write"):
                engine.rows(main, "INSERT INTO gold.orders VALUES (4, 'cy', 1e0)")
            with pytest.raises(TrinoError, match="may not write"):
                engine.rows(main, "DROP TABLE gold.orders")
            assert engine.rows(main, "SELECT count(*) FROM gold.orders") == [(3,)]
            assert next(iter(lake.log("dev"))).author == "ann"


@pytest.mark.service
def test_what_would_hurt_other_refs_is_refused(engine: Engine, make_lake: MakeLake) -> None:
    lake = make_lake(places.LOCAL)
    with serving(lake) as rest:
        dev = engine.rest(rest, "dev")
        for sql, why in (
            ("ALTER TABLE gold.orders EXECUTE expire_snapshots(retention_threshold => '8d')", "GC is disabled"),
            ("ALTER TABLE gold.orders EXECUTE remove_orphan_files(retention_threshold => '8d')", "minimum retention"),
        ):
            with pytest.raises(TrinoError, match=why):
                engine.rows(dev, sql)
        engine.rows(dev, "DROP TABLE gold.orders")
        assert engine.rows(engine.rest(rest, "main"), "SELECT count(*) FROM gold.orders") == [(3,)]


@pytest.mark.service
@pytest.mark.parametrize("kind", [places.LOCAL, places.POSTGRES])
def test_by_jdbc_it_needs_no_server(engine: Engine, make_lake: MakeLake, kind: str) -> None:
    lake = make_lake(kind)
    password = dict(lake.store.jdbc).get("jdbc.password", "")
    statement = trino.as_sql("dev", trino.by_jdbc(lake, "dev")).replace("${ENV:MERE_CATALOG_PASSWORD}", password)
    dev = engine.create(statement, "dev")
    before = len(list(lake.log("dev")))
    engine.rows(dev, "INSERT INTO gold.orders VALUES (4, 'cy', 1e0)")
    assert orders.rows(lake, "select count(*) from gold.orders", "dev") == [(4,)]
    assert orders.rows(lake, "select count(*) from gold.orders", "main") == [(3,)]
    assert len(list(lake.log("dev"))) == before + 1
    with pytest.raises(TrinoError):
        engine.rows(dev, "DROP TABLE gold.orders")
    assert orders.rows(lake, "select count(*) from gold.orders", "main") == [(3,)]
    assert orders.rows(lake, "select count(*) from gold.orders", "dev") == [(4,)]
    if kind == places.LOCAL:
        view(lake, "gold.some", "select id from gold.orders", ref="dev", id="long")
        with pytest.raises(TrinoError, match="unsupported dialect 'spark'"):
            engine.rows(dev, "SELECT * FROM gold.some")


@pytest.mark.service
def test_views_of_its_own_follow_the_ref(engine: Engine, make_lake: MakeLake) -> None:
    lake = make_lake(places.LOCAL)
    with serving(lake) as rest:
        dev = engine.rest(rest, "dev")
        engine.rows(dev, "CREATE VIEW gold.big AS SELECT id FROM gold.orders WHERE amount > 15")
        assert engine.rows(dev, "SELECT * FROM gold.big") == [(2,)]
        engine.rows(dev, "CREATE OR REPLACE VIEW gold.big AS SELECT id, amount FROM gold.orders WHERE amount > 5")
        assert engine.rows(dev, "SELECT count(*) FROM gold.big") == [(2,)]
        assert lake.at("dev").metadata("gold.big").view_version.get("default-catalog") is None
        with pytest.raises(TrinoError, match="names a ref"):
            engine.rows(dev, f"CREATE VIEW gold.fixed AS SELECT id FROM {dev}.gold.orders")
        lake.publish("dev")
        engine.rows(dev, "DELETE FROM gold.orders WHERE id = 2")
        assert engine.rows(engine.rest(rest, "main"), "SELECT count(*) FROM gold.big") == [(2,)]
        assert engine.rows(dev, "SELECT count(*) FROM gold.big") == [(1,)]
        engine.rows(dev, "DROP VIEW gold.big")


@pytest.mark.service
def test_views_of_spark_s_are_read_with_its_values(engine: Engine, make_lake: MakeLake) -> None:
    lake = make_lake(places.LOCAL)
    view(
        lake,
        "gold.totals",
        "select customer, sum(amount) as total, count(*) as n from orders group by customer",
        customer="string",
        total="double",
        n="long",
    )
    view(lake, "gold.loud", "select upper(customer), total * 2 from gold.totals where n > 1", who="string", t="double")
    view(lake, "gold.odd", "select id, initcap(customer) from gold.orders", id="long", c="string")
    with serving(lake) as rest:
        main = engine.rest(rest, "main")
        assert engine.rows(main, "SELECT * FROM gold.totals ORDER BY 1") == [("ann", 10.0, 2), ("bob", 20.0, 1)]
        assert engine.rows(main, "SELECT who, t FROM gold.loud") == [("ANN", 20.0)]
        assert orders.rows(lake, "select who, t from gold.loud") == [("ANN", 20.0)]
        with pytest.raises(
            TrinoError, match=r"View gold\.odd cannot be read from Trino: `INITCAP\(customer\)` is not proven"
        ):
            engine.rows(main, "SELECT count(*) FROM gold.odd")
        shown = "SELECT table_name FROM information_schema.views WHERE table_schema = 'gold' ORDER BY 1"
        assert engine.rows(main, shown) == [("loud",), ("odd",), ("totals",)]


@pytest.mark.service
def test_all_engines_read_the_same_without_spark(engine: Engine, make_lake: MakeLake) -> None:
    """No Spark is there: Trino, DuckDB, PyIceberg and psql read on."""
    lake = make_lake(places.LOCAL)
    with serving(lake) as rest:
        dev = engine.rest(rest, "dev")
        engine.rows(dev, "DELETE FROM gold.orders WHERE id = 1")
        sql = "SELECT count(*), sum(id), sum(amount) FROM gold.orders"
        found: dict[str, Sequence[Any]] = {"trino": engine.rows(dev, sql)[0]}
        with closing(attached(rest, "dev")) as connection:
            found["duckdb"] = connection.execute(sql.replace("gold.", "dev_ref.gold.")).fetchone() or ()
        columns = pyiceberg_catalog(rest, "dev").load_table("gold.orders").scan().to_arrow().to_pydict()
        found["pyiceberg"] = len(columns["id"]), sum(columns["id"]), sum(filter(None, columns["amount"]))
        with psycopg.connect(f"host=127.0.0.1 port={rest.postgres} dbname=dev user=ann") as connection:
            found["psql"] = connection.execute(sql).fetchone() or ()
        assert {tuple(map(float, each)) for each in found.values()} == {(2.0, 5.0, 20.0)}

"""APIs and databases, loaded by runs: what is new and what came late is there once, whatever was loaded before."""

from __future__ import annotations

import json
from collections.abc import Callable

import psycopg

from tests.pipeline.shop import Shop
from tests.services.postgres import PASSWORD, Postgres
from tests.services.web import Reply, Request, WebServer

MakeShop = Callable[..., Shop]

ORDERS = """
    database:
      url: ${SHOP_DATABASE}
      table: orders
      cursor: at
      overlap: 1h
    trace: false
"""
EVENTS = """
    rest:
      url: ${SHOP_API}/events
      headers: {Authorization: "Bearer ${SHOP_TOKEN}"}
      records: data
      paging: {page: p}
      cursor: at
      since: from
    key: id
    columns: {id: bigint, at: bigint, price: "decimal(38, 10)"}
    trace: false
"""
EXACT = "1234567890123456789012345678.0123456789"


def test_rows_of_a_database_are_there_once_with_those_that_came_late(shop: MakeShop, postgres_server: Postgres) -> None:
    url = postgres_server.new_database("load_orders")
    made = shop({"sources/bronze/orders.yaml": ORDERS})
    made.environment["SHOP_DATABASE"] = url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE orders (id int, at timestamptz);"
            " INSERT INTO orders VALUES (1, '2026-01-01 10:00+00'), (2, '2026-01-01 11:30+00'), (3, NULL)"
        )
        made.run()
        assert made.rows("SELECT id FROM bronze.orders") == [(1,), (2,), (3,)]
        # One is late but within the overlap, one is new, and one was deleted where rows are replaced.
        connection.execute("INSERT INTO orders VALUES (4, '2026-01-01 11:00+00'), (5, '2026-01-01 12:00+00')")
        connection.execute("DELETE FROM orders WHERE id = 2")
        made.run()
        assert made.rows("SELECT id FROM bronze.orders") == [(1,), (3,), (4,), (5,)]
        connection.execute("DROP TABLE orders")
    _, said = made.failed_run()
    assert 'relation "orders" does not exist' in said
    everything = (
        said + json.dumps([commit.message for commit in made.lake.log()]) + repr(made.rows("bronze.orders__loads"))
    )
    assert PASSWORD not in everything


def test_records_of_an_api_are_merged_by_key_and_nothing_new_is_no_work(shop: MakeShop) -> None:
    events = [f'{{"id": {number}, "at": {number}, "price": {EXACT}}}' for number in range(1, 6)]

    def answer(request: Request) -> Reply:
        since = int(request.params.get("from", "0"))
        found = [each for each in events if json.loads(each)["at"] >= since]
        at = 2 * (int(request.params["p"]) - 1)
        return Reply(f'{{"data": [{", ".join(found[at : at + 2])}]}}'.encode())

    made = shop({"sources/bronze/events.yaml": EVENTS})
    with WebServer(answer) as server:
        made.environment |= {"SHOP_API": server.url, "SHOP_TOKEN": "t0p-s3cret"}
        made.run()
        assert made.rows("SELECT count(*), min(price)::text FROM bronze.events") == [(5, EXACT)]
        assert made.plan() == {}
        events += ['{"id": 3, "at": 6, "price": 1.10}', '{"id": 6, "at": 7, "price": 2}']
        made.run()
    assert made.rows('SELECT id, "at" FROM bronze.events') == [(1, 1), (2, 2), (3, 6), (4, 4), (5, 5), (6, 7)]
    assert [each.params.get("from") for each in server.requests][-1] == "5"
    assert all(each.headers["authorization"] == "Bearer t0p-s3cret" for each in server.requests)
    assert "s3cret" not in repr(made.rows("bronze.events__loads"))

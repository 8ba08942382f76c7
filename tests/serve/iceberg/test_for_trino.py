"""What the catalog answers to Trino, which comes in below /iceberg/trino/NAME. No Trino is needed for that."""

from __future__ import annotations

from typing import Any

from mere.lake.lake import Lake
from tests.lake.query.test_views import view
from tests.serve.iceberg.rest import Rest, error


def asked(rest: Rest, path: str, **more: Any) -> Any:
    return rest.session.get(f"{rest.uri}/trino/shop/v1/{path}", timeout=60, **more).json()


def loaded(rest: Rest, name: str, below: str = "/trino/shop") -> dict[str, Any]:
    found = rest.session.get(f"{rest.uri}{below}/v1/main/namespaces/gold/views/{name}", timeout=60)
    (version,) = found.json()["metadata"]["versions"]
    return {**version, "sql": {each["dialect"]: each["sql"] for each in version["representations"]}}


def test_a_view_gets_trino_s_sql_and_the_catalog_to_look_in(rest: Rest, lake: Lake) -> None:
    view(lake, "gold.totals", "select customer, count(*) from orders group by 1", customer="string", n="long")
    found = loaded(rest, "totals")
    assert found["default-catalog"] == "shop"
    assert found["sql"]["spark"] == "select customer, count(*) from orders group by 1"
    assert '"shop"."gold"."orders"' in found["sql"]["trino"]
    assert found["sql"]["trino"].startswith('SELECT CAST(c0 AS VARCHAR) AS "customer", CAST(c1 AS BIGINT) AS "n" FROM')
    plain = loaded(rest, "totals", "")
    assert ("default-catalog" in plain, list(plain["sql"])) == (False, ["spark"])


def test_the_types_are_those_of_the_tables_at_that_ref(rest: Rest, lake: Lake) -> None:
    view(lake, "gold.sums", "select sum(id) from gold.orders", total="long")
    assert 'CAST(SUM("id") AS BIGINT)' in loaded(rest, "sums")["sql"]["trino"]
    lake.drop("gold.orders")
    assert "gold.orders, which is not a table" in loaded(rest, "sums")["sql"]["trino"]


def test_a_view_that_is_not_proven_is_a_query_that_fails_and_says_why(rest: Rest, lake: Lake) -> None:
    view(lake, "gold.odd", "select id, initcap(customer) from gold.orders", id="long", c="string")
    sql = loaded(rest, "odd")["sql"]["trino"]
    assert "fail('View gold.odd cannot be read from Trino: `INITCAP(customer)` is not proven" in sql
    assert sql.startswith('SELECT CAST(NULL AS BIGINT) AS "id", CAST(NULL AS VARCHAR) AS "c" FROM (VALUES 1)')


def test_views_of_trino_s_own_lose_the_catalog(rest: Rest, lake: Lake) -> None:
    def body(sql: str, catalog: str) -> dict[str, Any]:
        version = {
            "version-id": 1, "schema-id": 0, "timestamp-ms": 0, "summary": {}, "default-namespace": ["gold"],
            "default-catalog": catalog, "representations": [{"type": "sql", "sql": sql, "dialect": "trino"}],
        }  # fmt: skip
        fields = [{"id": 1, "name": "id", "required": False, "type": "long"}]
        return {
            "name": "mine",
            "schema": {"type": "struct", "fields": fields},
            "view-version": version,
            "properties": {},
        }

    where = f"{rest.uri}/trino/shop/v1/dev/namespaces/gold/views"
    other = rest.session.post(where, json=body("SELECT id FROM orders", "other"), timeout=60)
    assert "would not follow the ref" in error(other)[2]
    named = rest.session.post(where, json=body("SELECT id FROM shop.gold.orders", "shop"), timeout=60)
    assert "names a ref: shop.gold.orders" in error(named)[2]
    made = rest.session.post(where, json=body("SELECT id FROM orders", "shop"), timeout=60)
    assert made.status_code == 200
    assert "default-catalog" not in lake.at("dev").metadata("gold.mine").view_version
    assert next(iter(lake.log("dev"))).message == "create view gold.mine (Trino)"


def test_a_namespace_has_a_location_for_trino_alone(rest: Rest, lake: Lake) -> None:
    """Without one, Trino makes a table at once, and then refuses it because its folder has a file."""
    assert asked(rest, "main/namespaces/gold")["properties"] == {"location": f"file://{lake.warehouse}/gold"}
    assert rest.get("main/namespaces/gold").json()["properties"] == {}


def test_a_commit_is_by_trino_its_version_and_its_user(rest: Rest, lake: Lake) -> None:
    where = f"{rest.uri}/trino/shop/v1/dev/namespaces/gold/tables/orders"
    changed: dict[str, Any] = {"updates": [{"action": "set-properties", "updates": {"a": "b"}}], "requirements": []}
    assert rest.session.post(where, json=changed, timeout=60).status_code == 200
    assert next(iter(lake.log("dev"))).message == "alter gold.orders (Trino)"

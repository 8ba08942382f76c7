"""What clients read: the configuration, namespaces, tables."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import RestCatalog

from mere.lake.lake import Lake
from mere.serve.iceberg.routes import HANDLERS
from tests.lake import orders
from tests.serve.iceberg.rest import Rest, error, roles, serving

ORDERS = "namespaces/gold/tables/orders"


def catalog(rest: Rest, warehouse: str, **more: Any) -> RestCatalog:
    found = load_catalog("rest", type="rest", uri=rest.uri, warehouse=warehouse, **more)
    assert isinstance(found, RestCatalog)
    return found


def test_the_warehouse_is_the_ref(rest: Rest, lake: Lake) -> None:
    orders.write(lake, "gold.orders", orders.ONE_MORE, "dev")
    lake.tag("v1", at="dev")
    rows = {
        ref: catalog(rest, ref).load_table("gold.orders").scan().to_arrow().num_rows for ref in ("main", "dev", "v1")
    }
    assert rows == {"main": 3, "dev": 4, "v1": 4}
    assert rest.get("config").json()["overrides"] == {"prefix": "main"}


def test_a_client_is_told_of_all_endpoints_and_of_no_other(rest: Rest) -> None:
    told = rest.get("config").json()["endpoints"]
    assert told == list(HANDLERS)
    for each in told:
        method, _, path = each.partition(" ")
        path = path.removeprefix("/v1/").format(prefix="none", namespace="n", table="t", view="v")
        answer = rest.ask(method, path, data=b"{}")
        assert method == "HEAD" or "There is no branch" in error(answer)[2] or answer.status_code == 400, each


@pytest.mark.parametrize("text", ["main~1", "main@0s"])
def test_what_would_move_is_one_commit_for_as_long_as_the_client_stays(rest: Rest, lake: Lake, text: str) -> None:
    commit = lake.resolve(text).commit.id
    prefix = rest.get("config", params={"warehouse": text}).json()["overrides"]["prefix"]
    assert prefix == commit
    before = rest.get(f"{prefix}/{ORDERS}").json()["metadata-location"] if text == "main@0s" else None
    orders.write(lake, "gold.orders", orders.ONE_MORE)
    if before:
        assert rest.get(f"{prefix}/{ORDERS}").json()["metadata-location"] == before
    # The expression itself is a warehouse, too, and goes with time.
    assert rest.get(f"{text}/namespaces").json() == {"namespaces": [["gold"]]}


def test_a_warehouse_that_is_none_says_what_one_is(rest: Rest) -> None:
    status, kind, message = error(rest.get("config", params={"warehouse": "mian"}))
    assert (status, kind) == (404, "NoSuchWarehouseException")
    assert "Did you mean main?" in message
    assert "The warehouse is the ref" in message
    assert error(rest.get("config", params={"warehouse": "s3://bucket/x"}))[0] == 400
    assert error(rest.get("none/namespaces"))[:2] == (404, "NoSuchWarehouseException")


def test_the_metadata_comes_as_it_is_stored(rest: Rest, lake: Lake) -> None:
    location = lake.at("main").pointer("gold.orders")
    stored = orjson.loads(Path(location).read_bytes())
    strange = {**stored, "of-tomorrow": {"x": [1, None]}}
    packed = location.replace(".metadata.json", "-2.gz.metadata.json")
    Path(packed).write_bytes(gzip.compress(orjson.dumps(strange)))
    orders.point(lake, "gold", "strange", packed)
    assert rest.get("main/namespaces/gold/tables/strange").json() == {
        "metadata-location": packed,
        "metadata": strange,
        "config": {},
    }


def test_what_did_not_change_is_not_sent_again(rest: Rest, lake: Lake) -> None:
    first = rest.get(f"dev/{ORDERS}")
    again = rest.get(f"dev/{ORDERS}", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    refs = rest.get(f"dev/{ORDERS}?snapshots=refs", headers={"If-None-Match": first.headers["ETag"]})
    assert refs.status_code == 200
    orders.write(lake, "gold.orders", orders.ONE_MORE, "dev")
    assert rest.get(f"dev/{ORDERS}", headers={"If-None-Match": first.headers["ETag"]}).status_code == 200


def test_snapshots_that_no_ref_names_can_be_left_out(rest: Rest, lake: Lake) -> None:
    orders.write(lake, "gold.orders", orders.ONE_MORE, "dev")
    both = [rest.get(f"dev/{ORDERS}?snapshots={which}").json()["metadata"] for which in ("all", "refs")]
    assert [len(each["snapshots"]) for each in both] == [2, 1]
    assert both[1]["snapshots"][0]["snapshot-id"] == both[0]["current-snapshot-id"]
    assert {k: v for k, v in both[0].items() if k != "snapshots"} == {
        k: v for k, v in both[1].items() if k != "snapshots"
    }
    assert error(rest.get(f"dev/{ORDERS}?snapshots=some"))[0] == 400


def test_what_is_not_there_is_404_by_its_kind(rest: Rest) -> None:
    assert error(rest.get("main/namespaces/gold/tables/nix"))[:2] == (404, "NoSuchTableException")
    assert error(rest.get("main/namespaces/gold/views/orders"))[:2] == (404, "NoSuchViewException")
    assert error(rest.get("main/namespaces/nix/tables"))[:2] == (404, "NoSuchNamespaceException")
    assert error(rest.get("main/namespaces/nix"))[:2] == (404, "NoSuchNamespaceException")
    assert error(rest.get("main/nix"))[:2] == (404, "NotFoundException")
    assert rest.ask("HEAD", "main/namespaces/gold/tables/nix").status_code == 404
    assert rest.ask("HEAD", f"main/{ORDERS}").status_code == 204
    assert rest.ask("HEAD", "main/namespaces/gold").status_code == 204
    assert error(rest.get("main/namespaces/a%1Fb/tables"))[:2] == (400, "BadRequestException")


def test_lists_come_in_pages_that_miss_and_repeat_nothing(rest: Rest, lake: Lake) -> None:
    for name in ("c", "a", "b"):
        orders.write(lake, f"gold.{name}", orders.CUSTOMERS)
    found, token = [], ""
    while True:
        page = rest.get("main/namespaces/gold/tables", params={"pageSize": 2, "pageToken": token}).json()
        found.append([each["name"] for each in page["identifiers"]])
        lake.drop(f"gold.{found[-1][0]}")
        if (token := page.get("next-page-token", "")) == "":
            break
    assert found == [["a", "b"], ["c", "customers"], ["orders"]]
    for wrong in ({"pageSize": "x"}, {"pageSize": 0}, {"pageToken": "äö"}):
        assert error(rest.get("main/namespaces/gold/tables", params=wrong))[0] == 400


def test_a_damaged_metadata_file_is_an_error_of_the_server_s(rest: Rest, lake: Lake) -> None:
    location = lake.at("main").pointer("gold.orders")
    Path(location).write_bytes(b"{")
    status, kind, message = error(rest.get(f"main/{ORDERS}"))
    assert (status, kind) == (503, "ServiceUnavailableException")
    assert "is not Iceberg metadata" in message
    Path(location).unlink()
    assert error(rest.get(f"main/{ORDERS}"))[:2] == (404, "NotFoundException")


def test_reports_are_taken(rest: Rest) -> None:
    assert rest.post(f"main/{ORDERS}/metrics", {"report-type": "scan-report"}).status_code == 204
    assert error(rest.post(f"main/{ORDERS}/metrics", {}))[0] == 400
    # Spark reports on a table that it has only staged, and on one that somebody has dropped meanwhile.
    assert rest.post("main/namespaces/gold/tables/new/metrics", {"report-type": "commit-report"}).status_code == 204
    assert error(rest.post("nowhere/namespaces/gold/tables/new/metrics", {"report-type": "scan-report"}))[0] == 404
    assert rest.get(f"main/{ORDERS}/credentials").json() == {"storage-credentials": []}


ROLES = """
roles:
  part: {tables: "gold.*", rows: {gold.orders: customer = 'ann'}, refs: [main]}
  some: {tables: gold.customers}
  present: {tables: "*", refs: [main], history: false}
users: {ann: part, bob: some, cy: present}
"""


def test_a_role_gives_files_of_whole_tables_alone(lake: Lake) -> None:
    with serving(lake, roles=roles(ROLES)) as rest:
        rest.session.auth = ("ann", "")
        status, kind, message = error(rest.get(f"main/{ORDERS}"))
        assert (status, kind) == (403, "ForbiddenException")
        assert "Read it through the gateway" in message
        assert rest.get("main/namespaces/gold/tables/customers").status_code == 200
        assert error(rest.get(f"dev/{ORDERS}"))[0] == error(rest.get("none/namespaces"))[0] == 403

        rest.session.auth = ("bob", "")
        assert error(rest.get(f"main/{ORDERS}"))[:2] == (404, "NoSuchTableException")
        found = rest.get("dev/namespaces/gold/tables").json()["identifiers"]
        assert found == [{"namespace": ["gold"], "name": "customers"}]

        rest.session.auth = ("cy", "")
        assert rest.get(f"main/{ORDERS}").status_code == 200
        assert error(rest.get(f"main~1/{ORDERS}"))[0] == 403
        assert error(rest.get("config?warehouse=main@0s"))[0] == 403

        rest.session.auth = ("eve", "")
        assert error(rest.get("config"))[0] == 403

"""Commits as they come over the wire: sent twice, lost on the way, over several tables, killed half way."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa
import pytest
import requests

from mere.errors import StorageUnreachable
from mere.lake import faults
from mere.lake.lake import Lake
from mere.lake.storage.port import LocalStorage
from mere.serve.access.roles import Everybody, Role, Rule, Writes
from tests.lake import orders
from tests.serve.iceberg.rest import Rest, error, serving
from tests.serve.iceberg.test_read import catalog

ORDERS = "namespaces/gold/tables/orders"
Json = dict[str, Any]


class Sent:
    """The requests of a client, as it sent them, to be sent again."""

    def __init__(self, rest: Rest, ref: str = "dev") -> None:
        self.catalog = catalog(rest, ref)
        self.bodies: list[Json] = []
        send = self.catalog._session.send

        def noting(request: requests.PreparedRequest, **more: Any) -> requests.Response:
            if request.method == "POST" and b'"updates"' in (body := _bytes(request.body)):
                self.bodies.append(orjson.loads(body))
            return send(request, **more)

        self.catalog._session.send = noting  # type: ignore[method-assign]


def _bytes(body: object) -> bytes:
    return body.encode() if isinstance(body, str) else body if isinstance(body, bytes) else b""


@pytest.fixture
def append(rest: Rest) -> Callable[[str], Json]:
    """Appends a row to a table, and gives what was sent."""

    def appended(table: str) -> Json:
        client = Sent(rest)
        client.catalog.load_table(table).append(orders.ONE_MORE)
        return client.bodies[-1]

    return appended


def count(lake: Lake, ref: str = "dev") -> int:
    return int(orders.rows(lake, "select count(*) from gold.orders", ref)[0][0])


def commits(lake: Lake, ref: str = "dev") -> int:
    return sum(1 for _ in lake.log(ref))


def test_a_commit_whose_answer_got_lost_is_answered_with_success(
    rest: Rest, lake: Lake, append: Callable[[str], Json]
) -> None:
    sent = append("gold.orders")
    before = commits(lake)
    again = rest.post(f"dev/{ORDERS}", sent)
    assert again.status_code == 200
    assert again.json()["metadata-location"] == lake.at("dev").pointer("gold.orders")
    append("gold.orders")  # somebody else has gone on
    assert rest.post(f"dev/{ORDERS}", sent).status_code == 200
    assert (count(lake), commits(lake)) == (5, before + 1)
    other = copy.deepcopy(sent)
    other["updates"][0]["snapshot"]["manifest-list"] += ".avro"  # not the same, whatever its number is
    assert error(rest.post(f"dev/{ORDERS}", other))[:2] == (409, "CommitFailedException")


def test_a_request_with_a_key_is_done_once(rest: Rest, lake: Lake) -> None:
    asked = {"updates": [{"action": "set-properties", "updates": {"a": "1"}}]}
    key = {"Idempotency-Key": "0198c0de-0000-7000-8000-000000000001"}
    first = rest.post(f"dev/{ORDERS}", asked, headers=key)
    rest.post(f"dev/{ORDERS}", {"updates": [{"action": "set-properties", "updates": {"a": "2"}}]})
    again = rest.post(f"dev/{ORDERS}", asked, headers=key)
    assert (first.status_code, again.json()) == (200, first.json())
    assert lake.at("dev").metadata("gold.orders").properties["a"] == "2"
    # The key is of this user, this operation, this path, and this request.
    assert error(rest.post(f"dev/{ORDERS}", {"updates": []}, headers=key))[0] == 422
    assert rest.post(f"dev/{ORDERS}", asked, headers=key, auth=("bob", "")).status_code == 200
    assert lake.at("dev").metadata("gold.orders").properties["a"] == "1"
    assert error(rest.post(f"dev/{ORDERS}", asked, headers={"Idempotency-Key": "a b"}))[0] == 400
    assert rest.get("config").json()["idempotency-key-lifetime"] == "PT30M"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "namespaces", {"namespace": ["silver"], "properties": {"a": "1"}}),
        ("POST", "namespaces/gold/properties", {"updates": {"a": "1"}}),
        ("DELETE", ORDERS, None),
        (
            "POST",
            "tables/rename",
            {
                "source": {"namespace": ["gold"], "name": "orders"},
                "destination": {"namespace": ["gold"], "name": "renamed"},
            },
        ),
        ("POST", "namespaces/gold/tables", {"name": "made", "schema": {"type": "struct", "fields": []}}),
    ],
)
def test_whatever_is_written_under_a_key_is_answered_alike(
    rest: Rest, lake: Lake, method: str, path: str, body: object
) -> None:
    key = {"Idempotency-Key": "k-1"}
    first = rest.ask(method, f"dev/{path}", json=body, headers=key)
    after = commits(lake)
    again = rest.ask(method, f"dev/{path}", json=body, headers=key)
    assert first.status_code in (200, 204)
    assert (again.status_code, again.content, commits(lake)) == (first.status_code, first.content, after)


def test_an_answer_is_repeated_to_those_who_may_still_have_it(lake: Lake) -> None:
    """Another token of the same user may see less, and roles change while the server runs."""
    role = {"ann": Role("all", writes=Writes(("*",), ("*",)))}

    class Changing(Everybody):
        def of(self, user: str) -> Role | None:
            return role.get(user)

    asked = {"updates": [{"action": "set-properties", "updates": {"a": "1"}}]}
    key: Any = {"headers": {"Idempotency-Key": "k-1"}, "auth": ("ann", "")}
    with serving(lake, roles=Changing()) as rest:
        assert rest.post(f"dev/{ORDERS}", asked, **key).status_code == 200
        assert rest.post(f"dev/{ORDERS}", asked, **key).status_code == 200
        role["ann"] = replace(role["ann"], tables=(Rule("gold.customers"),))
        assert error(rest.post(f"dev/{ORDERS}", asked, **key))[0] == 403
        del role["ann"]
        assert error(rest.post(f"dev/{ORDERS}", asked, **key))[0] == 403


def test_a_refusal_stays_one_under_its_key(rest: Rest, lake: Lake) -> None:
    key = {"Idempotency-Key": "k-2"}
    first = rest.ask("DELETE", "dev/namespaces/gold/tables/later", headers=key)
    assert error(first)[0] == 404
    orders.write(lake, "gold.later", orders.CUSTOMERS, "dev")
    assert rest.ask("DELETE", "dev/namespaces/gold/tables/later", headers=key).json() == first.json()
    assert rest.ask("DELETE", "dev/namespaces/gold/tables/later").status_code == 204


def test_a_server_s_trouble_is_not_final(rest: Rest, lake: Lake) -> None:
    asked = {"updates": [{"action": "set-properties", "updates": {"a": "1"}}]}
    key = {"Idempotency-Key": "k-3"}

    def fail(name: str) -> None:
        if name == "commit.recorded":
            raise RuntimeError("a bug")

    faults.hook = fail
    try:
        assert error(rest.post(f"dev/{ORDERS}", asked, headers=key))[:2] == (500, "InternalServerError")
    finally:
        faults.hook = None
    assert rest.post(f"dev/{ORDERS}", asked, headers=key).status_code == 200


def test_the_same_request_sent_by_many_at_once_is_done_once(rest: Rest, lake: Lake) -> None:
    before = commits(lake)
    body: Any = {"name": "made", "schema": {"type": "struct", "fields": []}}
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(
                lambda _: requests.post(
                    f"{rest.uri}/v1/dev/namespaces/gold/tables",
                    json=body,
                    headers={"Idempotency-Key": "k-4"},
                    timeout=60,
                ),
                range(8),
            )
        )
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert commits(lake) == before + 1


def change(table: str, snapshot: int | None, value: str) -> Json:
    return {
        "identifier": {"namespace": ["gold"], "name": table},
        "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": snapshot}],
        "updates": [{"action": "set-properties", "updates": {"a": value}}],
    }


def test_a_transaction_changes_all_tables_or_none(rest: Rest, lake: Lake) -> None:
    names = [f"t{number}" for number in range(5)]
    for name in names:
        orders.write(lake, f"gold.{name}", orders.CUSTOMERS, "dev")
    at = {name: lake.at("dev").metadata(f"gold.{name}").current_id for name in names}
    asked = {"table-changes": [change(name, at[name], "1") for name in names]}
    assert rest.post("dev/transactions/commit", asked).status_code == 204
    (made,) = [commit for commit in lake.log("dev") if len(commit.changes) == 5]
    assert (made.message or "").startswith("alter gold.t0, gold.t1, gold.t2, gold.t3, gold.t4 (")

    orders.write(lake, "gold.t3", orders.CUSTOMERS, "dev")
    head = lake.resolve("dev").commit.id
    asked = {"table-changes": [change(name, at[name], "2") for name in names]}
    assert error(rest.post("dev/transactions/commit", asked))[:2] == (409, "CommitFailedException")
    assert lake.resolve("dev").commit.id == head
    assert {lake.at("dev").metadata(f"gold.{name}").properties["a"] for name in names} == {"1"}
    refused: list[Json] = [
        {},
        {"table-changes": []},
        {"table-changes": [1]},
        {"table-changes": [change("t0", None, "x")] * 2},
    ]
    for wrong in refused:
        assert error(rest.post("dev/transactions/commit", wrong))[0] == 400


def names_of(lake: Lake, count: int) -> list[str]:
    names = [f"t{number}" for number in range(count)]
    for name in names:
        orders.write(lake, f"gold.{name}", orders.CUSTOMERS, "dev")
    return names


def metadata_files(lake: Lake) -> set[str]:
    return {each.location for each in lake.storage.files(lake.warehouse) if each.location.endswith(".metadata.json")}


def changes(lake: Lake, names: list[str]) -> list[Json]:
    return [change(name, lake.at("dev").metadata(f"gold.{name}").current_id, "1") for name in names]


def test_the_files_of_a_transaction_are_written_side_by_side(
    rest: Rest, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On S3 each takes the time of a request."""
    names = names_of(lake, 6)
    together = threading.Barrier(len(names), timeout=10)
    write = LocalStorage.write_new

    def meets(self: LocalStorage, location: str, content: bytes) -> None:
        together.wait()
        write(self, location, content)

    asked = {"table-changes": changes(lake, names)}
    monkeypatch.setattr(LocalStorage, "write_new", meets)
    assert rest.post("dev/transactions/commit", asked).status_code == 204
    monkeypatch.undo()
    assert {lake.at("dev").metadata(f"gold.{name}").properties["a"] for name in names} == {"1"}


def test_a_transaction_that_is_refused_writes_no_file(rest: Rest, lake: Lake) -> None:
    names = names_of(lake, 3)
    before, head = metadata_files(lake), lake.resolve("dev").commit.id
    good = changes(lake, names[:2])
    gone = lake.at("dev").metadata("gold.t2")
    snapshot = {
        **gone.raw["snapshots"][-1], "snapshot-id": 7, "parent-snapshot-id": gone.current_id,
        "sequence-number": gone.raw["last-sequence-number"] + 1,
        "manifest-list": f"{gone.folder}/metadata/snap-7-nowhere.avro",
    }  # fmt: skip
    last: Json = change("t2", gone.current_id, "1") | {"updates": [{"action": "add-snapshot", "snapshot": snapshot}]}
    stale = change("t2", 1, "1")
    for wrong, status in ((stale, 409), (last, 400)):
        assert error(rest.post("dev/transactions/commit", {"table-changes": [*good, wrong]}))[0] == status
        assert metadata_files(lake) == before
    assert lake.resolve("dev").commit.id == head


@pytest.mark.parametrize("nth", [1, 3])
def test_a_transaction_of_which_a_file_cannot_be_written_changes_nothing(
    rest: Rest, lake: Lake, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    names = names_of(lake, 3)
    before, head = metadata_files(lake), lake.resolve("dev").commit.id
    asked = {"table-changes": changes(lake, names)}
    turns, write = iter(range(1, 100)), LocalStorage.write_new

    def fails(self: LocalStorage, location: str, content: bytes) -> None:
        if next(turns) == nth:
            raise StorageUnreachable("S3 does not answer.")
        write(self, location, content)

    monkeypatch.setattr(LocalStorage, "write_new", fails)
    assert error(rest.post("dev/transactions/commit", asked))[0] == 503
    monkeypatch.undo()
    assert lake.resolve("dev").commit.id == head
    assert len(metadata_files(lake) - before) <= 2, "what nobody points to is left to the sweep"
    assert rest.post("dev/transactions/commit", asked).status_code == 204
    assert {lake.at("dev").metadata(f"gold.{name}").properties["a"] for name in names} == {"1"}


def test_a_transaction_whose_answer_got_lost_is_answered_with_success(
    rest: Rest, lake: Lake, append: Callable[[str], Json]
) -> None:
    sent = append("gold.orders")
    sent["identifier"] = {"namespace": ["gold"], "name": "orders"}
    before = commits(lake)
    asked = {"table-changes": [sent, change("customers", 1, "stale")]}
    assert rest.post("dev/transactions/commit", asked).status_code == 204
    assert commits(lake) == before


def test_what_the_server_does_not_know_of_stays(rest: Rest, lake: Lake) -> None:
    metadata = lake.at("dev").metadata("gold.orders")
    raw = copy.deepcopy(metadata.raw)
    raw["of-tomorrow"] = {"x": [1]}
    raw["snapshots"][0]["of-tomorrow"] = 1
    raw["schemas"][0]["fields"][0]["of-tomorrow"] = 2
    strange = metadata.successor(raw)
    lake.reader.write(strange)
    orders.point(lake, "gold", "strange", strange.location, ref="dev")
    catalog(rest, "dev").load_table("gold.strange").append(orders.ONE_MORE)
    after = lake.at("dev").metadata("gold.strange").raw
    assert len(after["snapshots"]) == 2
    assert after["of-tomorrow"] == raw["of-tomorrow"]
    assert after["snapshots"][0] == raw["snapshots"][0]
    assert after["schemas"] == raw["schemas"]


POINTS = ["rest.applied", "rest.written", "commit.begun", "commit.checked", "commit.moved", "commit.recorded"]


@pytest.mark.parametrize("point", [*POINTS, "commit.durable"])
def test_a_commit_that_is_cut_off_is_whole_or_not_there(rest: Rest, lake: Lake, point: str) -> None:
    before, failed = commits(lake), threading.Event()

    def fail(name: str) -> None:
        if name == point and not failed.is_set():
            failed.set()
            raise RuntimeError("cut off")

    table = catalog(rest, "dev").load_table("gold.orders")
    faults.hook = fail
    try:
        with pytest.raises(Exception, match="The request failed"):
            table.append(orders.ONE_MORE)
    finally:
        faults.hook = None
    happened = int(point == "commit.durable")
    assert (count(lake), commits(lake)) == (3 + happened, before + happened)
    catalog(rest, "dev").load_table("gold.orders").append(orders.ONE_MORE)
    assert (count(lake), commits(lake)) == (4 + happened, before + happened + 1)


def race(rest: Rest, lake: Lake, clients: int, each: int) -> None:
    """Clients append to one table of their own and to one of all, each row with a number of its own."""
    rows = pa.table({"client": pa.array([], pa.int64()), "n": pa.array([], pa.int64())})
    dev = catalog(rest, "dev")
    dev.create_table("gold.all", rows.schema, properties={"commit.retry.num-retries": "1000"})
    before = commits(lake)

    def work(client: int) -> int:
        own = catalog(rest, "dev")
        table = own.load_table("gold.all")
        for number in range(each):
            row = pa.table({"client": [client], "n": [number]})
            table.refresh()
            table.append(row)
        return each

    with ThreadPoolExecutor(clients) as pool:
        done = sum(pool.map(work, range(clients)))
    found = orders.rows(lake, 'select client, n, count(*) from gold."all" group by 1, 2', "dev")
    assert len(found) == done == clients * each
    assert {row[2] for row in found} == {1}
    made = [commit for commit in lake.log("dev") if (commit.message or "").startswith("append gold.all")]
    assert len(made) == done == commits(lake) - before
    assert sum(change.stats.rows_added for commit in made for change in commit.changes if change.stats) == done


def test_clients_at_once_lose_and_double_nothing(rest: Rest, lake: Lake) -> None:
    race(rest, lake, 4, 4)


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_clients_at_once_lose_and_double_nothing_for_long(rest: Rest, lake: Lake) -> None:
    race(rest, lake, 8, 250)

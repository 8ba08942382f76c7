"""Loads under odd circumstances, in which rows could be lost, doubled, or published though they are too bad."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from mere import Session
from mere.lake import faults
from mere.pipeline.load import load
from tests.pipeline.conftest import MakeShop
from tests.pipeline.load.test_load import EACH as ORDERS
from tests.pipeline.load.test_load import SOURCE, TABLE, Crash, ids, ledger, put
from tests.pipeline.shop import Shop
from tests.services.web import Reply, Request, WebServer

DIRT = "bronze.orders__quarantine"
EVENTS = """
    rest: {url: "${SHOP_API}/events", cursor: at, since: from}
    columns: {id: bigint, at: bigint}
    max_bad: 100%
"""


@pytest.fixture
def it(shop: MakeShop) -> Shop:
    made = shop({SOURCE: ORDERS})
    put(made, "2024-01", "1,Oslo,10.50", "2,Rome,3")
    return made


def crash_at(point: str) -> None:
    def fail(name: str) -> None:
        if name == point:
            raise Crash

    faults.hook = fail


def killed(it: Shop, *arguments: str, at: str = "run.batch") -> str:
    """A run that dies when a part of it is signed."""
    crash_at(at)
    with pytest.raises(Crash):
        it("run", *arguments)
    faults.hook = None
    run: str = it.runs()[0]["id"]
    it.silence(run)
    if it.lake.store.leases():
        it.end_lease(run)
    return run


def test_what_was_bad_before_a_kill_still_counts(it: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "_PAUSE", -1.0)
    put(it, "2024-01", "1,Oslo,bad", "2,Oslo,bad", "3,Oslo,bad")
    put(it, "2024-02", "4,Oslo,1")
    run = killed(it)
    assert "readable" in it("run", "--resume", run, exit_code=1).stderr
    assert TABLE not in map(str, it.lake.at("main"))


def test_a_source_that_is_seldom_asked_is_resumed_to_its_end(it: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "_PAUSE", -1.0)
    it.write({SOURCE: f"{ORDERS}every: 6h\n"})
    put(it, "2024-02", "3,Oslo,1")
    run = killed(it)
    it("run", "--resume", run)
    assert ids(it) == [1, 2, 3]
    put(it, "2024-03", "4,Oslo,1")
    assert it.plan() == {}
    it("run", "--select", TABLE, "--from", "2024-03")
    assert ids(it) == [1, 2, 3, 4]


def test_the_first_load_of_some_windows_leaves_the_others_for_later(it: Shop) -> None:
    put(it, "2024-02", "3,Oslo,1")
    it("run", "--select", TABLE, "--from", "2024-02", "--to", "2024-03")
    assert ids(it) == [3]
    assert it.plan()[TABLE]["reasons"] == ["1 new file: orders_2024-01.csv"]
    it("run")
    assert ids(it) == [1, 2, 3]


def test_what_is_loaded_again_never_comes_beside_itself(it: Shop) -> None:
    it.write({SOURCE: f"{ORDERS}on_change: append\n"})
    it("run")
    it("run", "--select", TABLE, "--from", "2024-01")
    assert ids(it) == [1, 2]
    assert ledger(it) == [("orders_2024-01.csv", 2, 0)]


def test_new_and_changed_files_of_a_window_do_not_come_together(shop: MakeShop) -> None:
    it = shop({SOURCE: ORDERS.replace("{month}", "{month}*")})
    put(it, "2024-01a", "1,Oslo,1")
    put(it, "2024-02a", "2,Oslo,1")
    it("run")
    put(it, "2024-01a", "3,Oslo,1")
    put(it, "2024-01b", "4,Oslo,1")
    put(it, "2024-02b", "5,Oslo,1")
    it("run")
    snapshots = it.lake.at("main").metadata(TABLE).snapshots
    assert [each.count("added-records") for each in snapshots][2:] == [1, 1, 1]
    assert ids(it) == [2, 3, 4, 5]


def test_files_that_come_beside_what_they_were_are_counted_by_themselves(shop: MakeShop) -> None:
    it = shop({SOURCE: ORDERS.replace("orders_{year}-{month}", "orders_*") + "on_change: append\n"})
    for name in "abc":
        put(it, name, f"{ord(name)},Oslo,1")
    it("run")
    assert [each.count("added-records") for each in it.lake.at("main").metadata(TABLE).snapshots] == [3]
    put(it, "a", "1,Oslo,1", "2,Oslo,1")
    put(it, "b", "3,Oslo,1")
    put(it, "d", "4,Oslo,1")
    it("run")
    assert [each.count("added-records") for each in it.lake.at("main").metadata(TABLE).snapshots] == [3, 1, 2, 1]
    assert ids(it) == [1, 2, 3, 4, 97, 98, 99]
    files = [("a", 1), ("a", 2), ("b", 1), ("b", 1), ("c", 1), ("d", 1)]
    assert sorted(ledger(it)) == [(f"orders_{name}.csv", rows, 0) for name, rows in files]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("max_bad", "trace: {file: origin}\nmax_bad", "`trace.file` was _source_file, is now origin"),
        ("data/orders_{year}-{month}.csv", '"{place}/orders_{year}-{month}.csv"', "was loaded as orders_2024-01.csv"),
    ],
)
def test_what_would_lose_track_of_files_is_not_done_unasked(it: Shop, old: str, new: str, why: str) -> None:
    it("run")
    it.write({SOURCE: ORDERS.replace(old, new)})
    it("run", "--forward-only", TABLE, exit_code=1)
    step = it.plan()[TABLE]
    assert step["action"] == "blocked"
    assert ids(it) == [1, 2]
    assert why in " ".join(step["reasons"])


def test_a_changed_file_is_replaced_after_a_compaction(it: Shop, spark_on: Callable[..., Session]) -> None:
    put(it, "2024-02", "3,Oslo,1")
    it("run")
    spark_on(it.lake, "main").spark.sql(
        f"CALL main.system.rewrite_data_files(table => '{TABLE}', options => map('rewrite-all', 'true'))"
    )
    assert it.plan() == {}
    put(it, "2024-02", "4,Oslo,1")
    it("run")
    assert ids(it) == [1, 2, 4]


def test_a_rule_between_tables_puts_rows_of_a_source_aside(it: Shop) -> None:
    it.write({"seeds/raw/cities.csv": "name\nOslo\n"})
    rule = "audits:\n  - relationships: {column: city, to: raw.cities, key: name}\n    quarantine: true\n"
    it.write({SOURCE: ORDERS + rule})
    it("run")
    assert ids(it) == [1]
    ((raw, rules),) = it.rows(f"select _raw, _rules from {DIRT}")
    assert (raw, len(rules)) == ("2,Rome,3", 1)
    assert "_mere" not in str(it.lake.at("main").metadata(TABLE).raw["schemas"])


def test_rows_that_a_rule_puts_aside_come_each_time(shop: MakeShop) -> None:
    it = shop(
        {
            "sources/bronze/orders.py": """
            from mere import source

            @source("bronze.orders", cursor="id", key="id", audits=[{"assert": "id % 2 = 0", "quarantine": True}])
            def orders(spark, since=None):
                low = int(since) if since else 1
                return spark.sql(f"SELECT id FROM range({low}, {low + 4})")
            """
        }
    )
    it("run")
    it("run")
    assert ids(it) == [2, 4, 6]
    assert sorted(row[0] for row in it.rows(f"select id from {DIRT}")) == [1, 3, 5, 7]


class Api:
    """Gives all records from a value of their cursor on."""

    def __init__(self) -> None:
        self.records: list[str] = []

    def __call__(self, request: Request) -> Reply:
        since = int(request.params.get("from", "0"))
        found = [each for each in self.records if _at(each) is None or int(_at(each) or 0) >= since]
        return Reply(f"[{', '.join(found)}]".encode())


def _at(record: str) -> int | None:
    at = json.loads(record).get("at")
    return at if isinstance(at, int) else None


def test_records_replace_the_tail_and_none_is_lost(shop: MakeShop) -> None:
    it, api = shop({"sources/bronze/events.yaml": EVENTS}), Api()
    api.records = [f'{{"id": {number}, "at": {number}}}' for number in (1, 2, 9)]
    with WebServer(api) as server:
        it.environment |= {"SHOP_API": server.url}
        it("run")
        api.records += ['{"id": 10, "at": 10}', '{"id": 11, "at": 9}', '{"id": 12, "at": null}']
        it("run")
        api.records += ['{"id": 13, "at": 11}']
        it("run")
        assert sorted(row[0] for row in it.rows("select id from bronze.events")) == [1, 2, 9, 10, 11, 12, 13]
        api.records = ['{"id": 14, "at": "soon"}', '{"id": 15, "at": "later"}']
        it("run")
    assert sorted(row[0] for row in it.rows("select id from bronze.events")) == [1, 2, 9, 10, 11, 12, 13]
    put_aside = it.rows("select _raw from bronze.events__quarantine")
    assert sorted(put_aside) == [('{"id": 14, "at": "soon"}',), ('{"id": 15, "at": "later"}',)]


def test_a_cursor_of_numbers_that_is_text_is_refused(shop: MakeShop) -> None:
    it, api = shop({"sources/bronze/events.yaml": EVENTS.replace("columns: {id: bigint, at: bigint}", "")}), Api()
    api.records = ['{"id": 9, "at": 9}', '{"id": 10, "at": 10}']
    with WebServer(api) as server:
        it.environment |= {"SHOP_API": server.url}
        _, said = it.failed_run()
    assert "`columns: {at: bigint}`" in said

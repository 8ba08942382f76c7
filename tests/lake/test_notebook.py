"""What a lake and its results show in a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mere.lake.lake import Lake
from tests.lake import orders

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with orders.create(tmp_path) as lake:
        yield lake


def test_a_lake_says_where_and_what_it_is(lake: Lake) -> None:
    assert repr(lake) == f"<Lake {lake.location}, catalog in the SQLite file catalog.db>"
    assert repr(lake.at("main")) == f"<TableSet main at commit {lake.at().commit.short_id}: 2 tables>"
    lake.close()
    assert lake.location in repr(lake)


def test_results_show_themselves(lake: Lake) -> None:
    lake.branch("dev")
    lake.drop("gold.orders", on="dev", message=HOSTILE)
    diff = lake.diff("main", "dev")
    publication = lake.publish("dev", message=HOSTILE, dry_run=True)
    shown = {
        "log": lake.log("dev"),
        "commit": next(iter(lake.log("dev"))),
        "tables": lake.at("main"),
        "table": lake.at("main").table("gold.orders"),
        "description": lake.show("gold.orders"),
        "diff": diff,
        "publication": publication,
        "runs": lake.runs(),
        "refs": lake.refs(),
        "sql": lake.sql("from gold.orders"),
    }
    for name, each in shown.items():
        html = each._repr_html_()  # type: ignore[attr-defined]
        assert "<script" not in html, name
        assert len(html) < 20_000, name
    assert "&lt;script&gt;" in shown["log"]._repr_html_()  # type: ignore[attr-defined]
    assert "gold.orders" in diff._repr_html_()
    assert "dropped gold.orders" in publication._repr_html_()


def test_rows_that_differ_show_themselves(lake: Lake) -> None:
    before = lake.at("main").commit.id
    orders.write(lake, "gold.orders", orders.ONE_MORE)
    (rows,) = lake.diff(before, "main").rows(key=["id"])
    assert "added:" in rows._repr_html_()
    assert rows.to_dict()["table"] == "gold.orders"


def test_a_log_is_gone_through_as_often_as_wanted(lake: Lake) -> None:
    log = lake.log()
    assert list(log) == list(log)
    assert repr(log) == "<Log of main>"

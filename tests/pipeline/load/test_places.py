"""Where rows come from: a web server, a foreign bucket beside a lake on this machine, a function; and 1 % of poison of
every kind, of which each row is in the table or in the quarantine."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from mere.lake.storage.s3 import S3Storage
from tests.pipeline.conftest import MakeShop
from tests.pipeline.shop import Shop
from tests.services.s3 import ACCESS_KEY, SECRET_KEY, S3Server
from tests.sources.fileserver import Served, Trouble, running

SOURCE = "sources/bronze/orders.yaml"
COLUMNS = "columns: {id: bigint, city: string}\npath_columns: false\n"


def ids(it: Shop) -> list[int]:
    return sorted(row[0] for row in it.rows("select id from bronze.orders"))


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("mere.pipeline.build.model.cache_folder", lambda: tmp_path / "cache")


def test_files_of_a_web_server_are_fetched_once(shop: MakeShop) -> None:
    with running() as server:
        server.files["/d/orders_2024-01.csv"] = Served(b"id,city\n1,Oslo\n2,Rome\n")
        server.files["/d/orders_2024-02.csv"] = Served(b"id,city\n3,Bern\n")
        server.troubles.append(Trouble(status=503))
        it = shop({SOURCE: f"files: {server.url}/d/orders_{{year}}-{{month}}.csv\nstart: 2024-01\n{COLUMNS}"})
        it("run")
        assert ids(it) == [1, 2, 3]
        fetched = server.count("GET")
        assert it.plan() == {}
        server.files["/d/orders_2024-02.csv"] = Served(b"id,city\n4,Bern\n", etag='"v2"')
        it("run")
        assert ids(it) == [1, 2, 4]
        assert server.count("GET") == fetched + 1
        assert it.rows("select distinct location from bronze.orders__loads order by 1")[0] == (
            f"{server.url}/d/orders_2024-01.csv",
        )


def test_a_foreign_bucket_beside_a_lake_on_this_machine(
    shop: MakeShop, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = s3_server.new_bucket(f"foreign-{secrets.token_hex(4)}")
    storage = S3Storage(s3_server.settings)
    storage.write_new(f"{bucket}/in/a b%20.jsonl", b'{"id": 1, "city": "Oslo"}\n{"id": 2}\n')
    monkeypatch.setenv("PARTNER_KEY", ACCESS_KEY)
    monkeypatch.setenv("PARTNER_SECRET", SECRET_KEY)
    place = (
        f"s3: {{endpoint: '{s3_server.endpoint}', access_key: '${{PARTNER_KEY}}', secret_key: '${{PARTNER_SECRET}}'}}\n"
    )
    it = shop({SOURCE: f"files: {bucket}/in/*.jsonl\n{place}{COLUMNS}"})
    it("run")
    assert ids(it) == [1, 2]
    assert it.rows("select distinct _source_file from bronze.orders") == [("a b%20.jsonl",)]
    assert it.plan() == {}
    storage.write_new(f"{bucket}/in/b.jsonl", b'{"id": 3, "city": "Bern"}\n')
    it("run")
    assert ids(it) == [1, 2, 3]
    texts = [file.read_bytes() for file in it.folder.rglob("*") if file.is_file() and file.suffix != ".parquet"]
    assert not any(SECRET_KEY.encode() in text for text in texts)
    monkeypatch.setenv("PARTNER_SECRET", "wrong")
    step = it.plan()["bronze.orders"]
    assert step["action"] == "blocked"
    assert "wrong" not in str(step)


def test_a_function_brings_what_is_new(shop: MakeShop) -> None:
    it = shop(
        {
            "sources/bronze/orders.py": """
            from mere import source

            @source("bronze.orders", cursor="id", key="id", audits=[{"unique": "id"}])
            def orders(spark, since=None):
                low = int(since) if since else 1
                return spark.sql(f"SELECT id, 'from {low}' AS City FROM range({low}, {low + 3})")
            """
        }
    )
    it("run")
    assert ids(it) == [1, 2, 3]
    it("run")
    assert sorted(it.rows("select id, city from bronze.orders")) == [
        (1, "from 1"), (2, "from 1"), (3, "from 3"), (4, "from 3"), (5, "from 3"),
    ]  # fmt: skip
    it("run", "--full-refresh")
    assert ids(it) == [1, 2, 3]


def test_a_function_that_takes_no_cursor_replaces_all_and_waits_for_its_time(shop: MakeShop) -> None:
    text = """
    from mere import source

    @source("bronze.orders", every="1h")
    def orders(spark):
        return spark.sql("SELECT id FROM range(2)")
    """
    it = shop({"sources/bronze/orders.py": text})
    it("run")
    assert it.plan() == {}
    it.write({"sources/bronze/orders.py": text.replace('every="1h"', 'every="1s"')})
    it("run")
    assert ids(it) == [0, 1]
    assert len(it.rows("bronze.orders__loads")) == 1


def test_a_function_that_fails_is_told_with_its_line(shop: MakeShop) -> None:
    text = """
    from mere import source

    @source("bronze.orders")
    def orders(spark):
        raise KeyError("x")
    """
    it = shop({"sources/bronze/orders.py": text})
    _, said = it.failed_run()
    assert "sources/bronze/orders.py:5: KeyError" in said


POISON = [
    "{id},Oslo,1.50,2024-02-30",  # no such day
    "{id},Oslo,abc,2024-01-01",  # no number
    "{id},Oslo,99999999999.00,2024-01-01",  # too large
    "x{id},Oslo,1.50,2024-01-01",  # no id
    "{id},Oslo,1.50",  # too few values
    "{id},Oslo,1.50,2024-01-01,more",  # too many
    '{id},"Oslo,1.50,2024-01-01',  # a quote that is not closed
]


def test_rows_in_are_rows_published_and_rows_in_quarantine(shop: MakeShop) -> None:
    it = shop(
        {
            SOURCE: """
            files: data/*.csv
            columns: {id: bigint, city: string, amount: "decimal(10, 2)", day: date}
            max_bad: 2%
            """
        }
    )
    (it.folder / "data").mkdir()
    rows = 0
    bad: list[tuple[str, int, str]] = []
    for name in ("a.csv", "b.csv"):
        lines = ["id,city,amount,day"]
        for number in range(1000):
            rows += 1
            if number % 100 == 50:
                text = POISON[len(bad) % len(POISON)].format(id=rows)
                bad.append((name, len(lines) + 1, text))
                lines.append(text)
            else:
                lines.append(f"{rows},Oslo,{number}.25,2024-01-{number % 28 + 1:02}")
        content = "\n".join(lines).encode()
        if name == "b.csv":
            bad.append((name, len(lines) + 1, "invalid"))
            rows, content = rows + 1, content + b"\n1,\xff\xfe,1.00,2024-01-01\n"
        (it.folder / "data" / name).write_bytes(content)
    it("run")
    ((good, distinct),) = it.rows("select count(*), count(distinct id) from bronze.orders")
    put_aside = it.rows("select _source_file, _line, _raw, _why from bronze.orders__quarantine")
    assert (good + len(put_aside), good, distinct) == (rows, rows - len(bad), rows - len(bad))
    assert sorted(row[:2] for row in put_aside) == sorted(each[:2] for each in bad)
    assert {row[2] for row in put_aside} >= {text for *_, text in bad if text != "invalid"}
    assert all(row[3] for row in put_aside)
    assert it.rows("select sum(rows), sum(bad) from bronze.orders__loads") == [(good, len(bad))]

"""`mere plan` and `mere run` before Spark: the errors of `mere check`, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from tests.lake.orders import write
from tests.pipeline.shop import Shop

SEED = {"seeds/raw/orders.csv": "id,amount\n1,10\n"}
TYPO = "SELECT id, sum(amuont) AS amuont FROM raw.orders GROUP BY id"


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(
        tmp_path / "shop", {**SEED, "models/silver/a.sql": TYPO, "models/gold/b.sql": "SELECT id FROM silver.a"}
    )


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("Spark was about to start")

    monkeypatch.setattr("mere.engine.session.get_ready", refuse)
    monkeypatch.setattr("mere.engine.session.session", refuse)


@pytest.mark.usefixtures("no_spark")
def test_a_run_with_an_error_is_refused_before_spark(shop: Shop) -> None:
    done = shop("run", exit_code=1)
    assert "models/silver/a.sql:1:16: there is no column `amuont`. Did you mean amount?" in done.stderr
    assert "Nothing was run." in done.stderr
    assert shop.runs() == []


@pytest.mark.usefixtures("no_spark")
def test_an_error_upstream_of_what_is_selected_counts_too(shop: Shop) -> None:
    write(shop.lake, "silver.a", pa.table({"id": [1]}))
    done = shop("run", "gold.b", exit_code=1)
    assert done.stderr.splitlines()[-1].endswith("To run anyway: mere run --no-check gold.b")
    with pytest.raises(AssertionError, match="Spark was about to start"):
        shop("run", "raw.orders")  # which does not read it
    with pytest.raises(AssertionError, match="Spark was about to start"):
        shop("run", "--no-check", "gold.b")


def test_a_plan_shows_the_errors_below_it(shop: Shop) -> None:
    done = shop("plan", exit_code=1)
    assert "+  silver.a" in done.stdout
    assert "error unknown-column: models/silver/a.sql:1:16: there is no column `amuont`." in done.stdout
    assert done.stdout.endswith("1 error: mere run refuses to start\n")
    told = json.loads(shop("plan", "--json", exit_code=1).stdout)
    assert [each["rule"] for each in told["errors"]] == ["unknown-column"]
    assert shop("plan", "raw.orders").exit_code == 0
    assert shop("plan", "--no-check").exit_code == 0


def test_a_rule_that_is_switched_off_refuses_nothing(shop: Shop) -> None:
    shop.write({"models/silver/a.sql": "-- off: {changing-value: a sketch}\nSELECT id, rand() AS r FROM raw.orders"})
    shop("plan")
    shop.write({"models/silver/a.sql": "SELECT id, rand() AS r FROM raw.orders"})
    assert "changing-value" in shop("plan", exit_code=1).stdout


def test_the_exit_code_says_whether_there_is_something_to_do(shop: Shop) -> None:
    shop.remove("models/silver/a.sql")
    shop.remove("models/gold/b.sql")
    assert shop("plan").exit_code == 0
    shop("plan", "--exit-code", exit_code=3)
    shop.remove("seeds/raw/orders.csv")
    shop("plan", "--exit-code", exit_code=0)
    shop.write({"models/silver/a.sql": TYPO, **SEED})
    shop("plan", "--exit-code", exit_code=1)  # errors come first
    shop("plan", "--exit-code", "nothing.there", exit_code=2)

"""mere audit, for people and for machines."""

from __future__ import annotations

import shlex
from pathlib import Path

import pyarrow as pa
import pytest

from mere.lake.lake import Lake
from tests.cli.test_cli import Shell
from tests.lake.orders import write

MODEL = """\
-- audits:
--   - not_null: id
--   - assert: amount >= 0
--     severity: {severity}
--   - max_change: 50%
SELECT id, amount FROM raw.orders
"""


@pytest.fixture
def mere(tmp_path: Path) -> Shell:
    Shell(tmp_path)("init", "shop")
    mere = Shell(tmp_path / "shop")
    with Lake.open(mere.folder / "lake") as lake:
        write(lake, "gold.orders", pa.table({"id": [1, 2], "amount": [5, 6]}))
        lake.branch("dev")
        write(lake, "gold.orders", pa.table({"id": [3], "amount": [-7]}), "dev")
    model(mere, "orders", MODEL.format(severity="error"))
    return mere


def model(mere: Shell, name: str, text: str) -> None:
    folder = mere.folder / "models" / "gold"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.sql").write_text(text)


def test_audits_pass_on_one_ref_and_fail_on_another(mere: Shell) -> None:
    assert "3 audits at commit" in mere("audit").stdout
    shown = mere("audit", "--at", "dev", exit_code=1).stdout
    assert "assert(amount >= 0)  failed  1 of 3 rows is bad" in shown
    assert "  id  amount\n  3   -7\n" in shown
    assert "(models/gold/orders.sql:3)" in shown
    assert "2 → 3 rows (+50.0%)" in shown
    command = next(line for line in shown.splitlines() if "all of them: mere" in line).partition("mere ")[2]
    assert "-7" in mere(*shlex.split(command)).stdout


def test_a_warning_does_not_fail_the_command(mere: Shell) -> None:
    model(mere, "orders", MODEL.format(severity="warn"))
    found = mere.json("audit", "--at", "dev")
    assert [each["state"] for each in found["findings"]] == ["ok", "warned", "ok"]
    assert found["findings"][1]["sample"] == [{"id": 3, "amount": -7}]


def test_max_change_compares_with_the_commit_that_last_changed_the_table(mere: Shell) -> None:
    with Lake.open(mere.folder / "lake") as lake:
        write(lake, "gold.other", pa.table({"id": [1]}), "dev")
        with lake.pyiceberg("dev").load_table("gold.orders").transaction() as change:
            change.set_properties(note="no other rows")
    messages = [each["message"] for each in mere.json("audit", "--at", "dev", exit_code=1)["findings"]]
    assert messages[2] == "2 → 3 rows (+50.0%)"
    messages = [each["message"] for each in mere.json("audit")["findings"]]
    assert messages[2] == "2 rows; none before"


def test_models_are_selected_and_those_not_built_are_named(mere: Shell) -> None:
    model(mere, "later", "-- audits: [not_null: id]\nSELECT 1 AS id")
    found = mere.json("audit", "gold.later")
    assert (found["findings"], found["missing"]) == ([], ["gold.later"])
    assert "gold.later is not built on main" in mere("audit").stdout
    assert "No model matches gold.ordersx" in mere("audit", "gold.ordersx", exit_code=2).stderr
    assert {each["table"] for each in mere.json("audit", "gold.o*")["findings"]} == {"gold.orders"}


def test_an_audit_that_cannot_be_asked_fails_the_command(mere: Shell) -> None:
    model(mere, "orders", "-- audits:\n--   - not_null: idd\nSELECT id FROM raw.orders")
    shown = mere("audit", exit_code=1).stdout
    assert "models/gold/orders.sql:2: " in shown
    assert "idd" in shown


def test_spark_runs_what_duckdb_cannot(mere: Shell, warm_jvm: None) -> None:
    model(
        mere,
        "orders",
        "-- audits:\n--   - assert: hash(amount) is not null\n--   - max_change: 10%\nSELECT id FROM raw.orders",
    )
    shown = mere("audit", exit_code=1).stdout
    assert "is not proven to give the same value in DuckDB as in Spark (hash(" in shown
    assert "mere audit --spark" in shown
    found = mere.json("audit", "--spark", "--at", "dev", exit_code=1)
    assert [each["state"] for each in found["findings"]] == ["ok", "failed"]

"""mere lake delete: it says what will go, asks, and says what it did."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from mere.lake.lake import Lake
from mere.lake.log.runs import Run, RunStatus, holder
from mere.names import TableName
from tests.cli.test_cli import Shell


@pytest.fixture
def shop(tmp_path: Path) -> Shell:
    Shell(tmp_path)("init", "shop")
    shop = Shell(tmp_path / "shop")
    with Lake.open(shop.folder / "lake") as lake:
        rows = pa.table({"id": [1, 2, 3]})
        lake.pyiceberg("main").create_namespace("gold")
        lake.pyiceberg("main").create_table("gold.orders", rows.schema).append(rows)
    return shop


def asked(shop: Shell, answer: str) -> tuple[int, str]:
    """At a terminal."""
    keyboard, terminal = pty.openpty()
    os.write(keyboard, f"{answer}\n".encode())
    done = subprocess.run(
        [sys.executable, "-m", "mere", "lake", "delete"],
        cwd=shop.folder, stdin=terminal, capture_output=True, text=True, check=False,
    )  # fmt: skip
    os.close(keyboard)
    os.close(terminal)
    return done.returncode, done.stdout


def test_it_asks_and_takes_no_for_an_answer(shop: Shell) -> None:
    code, said = asked(shop, "n")
    assert code == 0
    assert f"the lake at {shop.folder / 'lake'}: " in said
    assert "1 branch or tag: main" in said
    assert "1 table: gold.orders" in said
    assert "This cannot be undone. [y/N]" in said
    assert "Nothing was changed." in said
    assert (shop.folder / "lake" / "catalog.db").exists()

    code, said = asked(shop, "y")
    assert code == 0
    assert f"deleted the lake at {shop.folder / 'lake'}" in said
    assert not (shop.folder / "lake").exists()
    assert (shop.folder / "mere.yaml").exists()
    shop("init")


def test_a_script_has_to_say_yes(shop: Shell) -> None:
    for arguments, remedy in (
        ((), "There is no terminal to confirm on. Nothing was changed.\nAdd --yes to delete it."),
        (("--json",), "Add --yes to delete, or --dry-run to look."),
    ):
        assert remedy in shop("lake", "delete", *arguments, exit_code=2).stderr
    looked = shop.json("lake", "delete", "--dry-run")
    assert (looked["deleted"], looked["tables"], looked["refs"]) == (False, ["gold.orders"], ["main"])
    assert "Nothing was changed." in shop("lake", "delete", "--dry-run", "--yes").stdout
    assert shop.json("tables")["tables"]
    found = shop.json("lake", "delete", "--yes")
    assert found == {**looked, "deleted": True}
    assert "There is no lake at" in shop("tables", exit_code=1).stderr


def test_a_run_that_goes_on_is_named_with_the_way_to_end_it(shop: Shell) -> None:
    with Lake.open(shop.folder / "lake") as lake:
        branch = lake.run_branch()
        id_ = branch.name.removeprefix("run_")
        now = lake.now()
        lake.store.save_run(Run(id_, "main", branch.name, RunStatus.RUNNING, "ann", now, now))
        with lake.lease([TableName("gold", "orders")], holder(id_)):
            refused = shop("lake", "delete", "--yes", exit_code=1).stderr
    assert f"run {id_} is writing to the lake. Nothing was changed." in refused
    assert f"mere runs end {id_}" in refused
    shop("runs", "end", id_)
    shop("lake", "delete", "--yes")

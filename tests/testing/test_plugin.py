"""The fixtures, used by a pytest of their own in this process, so that it finds the warm JVM."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.pipeline.shop import FIRST, TOTALS
from tests.testing.conftest import MakeShop

TESTS = """
    def test_a_function_is_called_with_frames(mere_session, mere_model):
        spark = mere_session.spark
        events = spark.createDataFrame([("Wien", 3), ("Wien", 4)], "city string, amount bigint")
        names = spark.createDataFrame([("WIEN",)], "name string")
        assert [tuple(row) for row in mere_model("gold.totals")(events, names).collect()] == [("WIEN", 7)]


    def test_what_is_written_on_a_branch(mere_session, mere_branch, mere_lake):
        mere_session.spark.sql("insert into landing.events (id) values (6)")
        assert mere_lake.at(mere_branch).metadata("landing.events").rows == 6
        assert mere_branch.startswith("test_")


    def test_is_not_there_in_the_next_test(mere_session, mere_branch, mere_lake):
        assert mere_session.spark.table("landing.events").count() == 5
        assert [ref.name for ref in mere_lake.refs() if ref.name.startswith("test_")] == [mere_branch]


    def test_a_model_that_is_not_there(mere_model):
        mere_model("gold.total")
"""


OURS = ["mere.testing", "mere.testing.plugin"]
REWRITER = "AssertionRewritingHook"


class Seen:
    """A plugin that notes how tests ended."""

    def __init__(self) -> None:
        self.ended: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed:
            self.ended[report.nodeid.rpartition("::")[2]] = report.longreprtext if report.failed else report.outcome


def test_fixtures_give_a_session_a_branch_and_functions(shop: MakeShop) -> None:
    project = shop({"models/gold/totals.py": TOTALS, "tests/test_totals.py": TESTS, "pytest.ini": "[pytest]\n"})
    project.land(*FIRST)
    seen = Seen()
    arguments = ["--rootdir", str(project.folder), "--import-mode=importlib", "-p", "no:cacheprovider"]
    pytest.main([str(project.folder / "tests"), *arguments], plugins=[seen])
    assert seen.ended == {
        "test_a_function_is_called_with_frames": "passed",
        "test_what_is_written_on_a_branch": "passed",
        "test_is_not_there_in_the_next_test": "passed",
        "test_a_model_that_is_not_there": "There is no PySpark model gold.total. Did you mean gold.totals?",
    }
    assert project.branches() == ["main"]
    assert len(project.rows("landing.events")) == 5


def test_the_plugin_costs_a_pytest_that_does_not_use_it_nothing() -> None:
    code = "import mere.testing.plugin, json, sys; print(json.dumps(sorted(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", f"import pytest\n{code}"], capture_output=True, text=True, check=True)
    loaded = [name for name in json.loads(shown.stdout) if name.startswith("mere.") or name in ("pyspark", "duckdb")]
    assert loaded == ["mere.engine", "mere.engine.door", "mere.engine.front", *OURS]


def test_pytest_does_not_compile_mere_anew() -> None:
    """But for the few modules that are there before the plugin is."""
    loaders = {name: type(getattr(module, "__loader__", None)).__name__ for name, module in [*sys.modules.items()]}
    rewritten = [name for name, loader in loaders.items() if loader == REWRITER]
    assert "tests.pipeline.shop" not in rewritten
    assert __name__ in rewritten
    ours = [name for name in rewritten if name.partition(".")[0] == "mere"]
    assert len(ours) < 12, ours

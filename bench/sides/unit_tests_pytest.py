"""The same tests, written by hand for pytest, on one session of the same kind that stays open."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import mere
from bench.sides.answer import answer
from bench.sides.rounds import timed
from bench.sides.unit_tests import write_by_hand


class Shared:
    """A plugin: the session for all tests, and how many of them passed."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.passed = 0

    @pytest.fixture(scope="session")
    def spark(self) -> SparkSession:
        return self._spark

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passed += report.when == "call" and report.passed


def tests() -> int:
    shared = Shared(session.spark)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        code = pytest.main(
            ["-q", "-p", "no:cacheprovider", "-p", "no:timeout", "--rootdir", ".", "test_models.py"], [shared]
        )
    assert code == 0, shown.getvalue()
    return shared.passed


write_by_hand(Path())
with mere.session(mere.Lake.create("lake")) as session:
    passed, timings = timed("tests", tests)
answer(passed, **timings)

"""`mere test`, again and again in a process with a warm Spark."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

import mere
from bench.sides.answer import answer
from bench.sides.rounds import timed
from bench.sides.unit_tests import write_project
from mere.cli import main


def tests() -> int:
    done = CliRunner().invoke(main, ["test", "--json"])
    assert done.exit_code == 0, done.output
    return int(json.loads(done.stdout)["passed"])


write_project(Path())
with mere.session(mere.Lake.create("lake")):
    passed, timings = timed("tests", tests)
answer(passed, **timings)

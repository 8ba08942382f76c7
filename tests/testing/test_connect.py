"""The same tests on a warm engine, which is a Spark Connect server: plain ones, and ones in steps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.service
@pytest.mark.timeout(600)
def test_the_tests_of_the_example_pass_on_a_warm_engine(tmp_path: Path) -> None:
    def mere(*arguments: str, folder: Path = tmp_path / "shop") -> str:
        command = [sys.executable, "-m", "mere", *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    mere("init", "shop", "--example", "orders", folder=tmp_path)
    mere("engine", "start")
    try:
        found = json.loads(mere("test", "--json"))
        assert (found["passed"], found["failed"]) == (6, 0)
    finally:
        mere("engine", "stop")

"""The harness measures what it says: a wrong stopwatch is worse than none."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path

import pytest

from bench import page, peers
from bench.__main__ import is_chosen, measure
from bench.blocks import Block, Calibration, check_results, run_case
from bench.case import Case, Result, Side, Target
from bench.cases import CASES
from bench.figures import figures
from bench.measure import Bench, Run, SideFailed
from bench.sides.answer import sized

BURN = "import time; e = time.process_time() + {seconds}\nwhile time.process_time() < e: pass"
ORPHAN = f"""
import subprocess, sys
subprocess.Popen([sys.executable, '-c', {BURN.format(seconds=0.4)!r}], start_new_session=True)
print('{{"result": "same", "timings": {{"step": 0.5}}}}')
"""


def python(code: str, result: Result = Result.JSON, jvm: bool = True) -> Side:
    return Side("python", ("{python}", "-c", code), result, jvm)


def case(ours: Side, peer: Side) -> Case:
    return Case("c", "A case", "About it.", ours, peer, ("wall", "cpu"), (Target("cpu", 0.5),))


def test_cpu_of_a_process_that_outlives_its_parent_is_counted(tmp_path: Path) -> None:
    run = Bench(tmp_path).run(python(ORPHAN))
    assert run.metrics["cpu"] >= 0.4
    assert run.metrics["wall"] < run.metrics["cpu"] + 0.4
    assert run.metrics["step"] == 0.5
    assert run.result == "same"


def test_memory_is_the_peak_of_all_processes_together(tmp_path: Path) -> None:
    hold = "import time; b = bytearray(80_000_000); time.sleep(0.6)"
    code = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', '{hold}']); {hold}; p.wait()"
    assert Bench(tmp_path).run(python(code, Result.NONE)).metrics["rss"] > 160_000_000


def test_what_a_side_writes_is_counted(tmp_path: Path) -> None:
    code = (
        "import pathlib; pathlib.Path('metadata').mkdir()\n"
        "pathlib.Path('metadata/m.json').write_bytes(b'12'); pathlib.Path('data').write_bytes(b'123')"
    )
    metrics = Bench(tmp_path).run(python(code, Result.NONE)).metrics
    assert (metrics["files"], metrics["bytes"], metrics["metadata_bytes"]) == (2, 5, 2)


def test_a_side_that_fails_or_says_nothing_is_not_measured(tmp_path: Path) -> None:
    with pytest.raises(SideFailed, match="ended with 3"):
        Bench(tmp_path).run(python("raise SystemExit(3)"))
    with pytest.raises(SideFailed, match="its result as JSON"):
        Bench(tmp_path).run(python("print('done')"))


def test_a_side_that_must_not_start_a_jvm_fails_when_it_does(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\nsleep 0.3\n", encoding="utf-8")
    java.chmod(0o755)
    code = f"import subprocess; subprocess.run([{str(java)!r}])"
    with pytest.raises(SideFailed, match="started a JVM"):
        Bench(tmp_path).run(python(code, Result.NONE, jvm=False))


def test_no_time_counts_before_the_results_agree() -> None:
    two_answers = case(python("print(1)", Result.OUTPUT), python("print(2)", Result.OUTPUT))
    with pytest.raises(SideFailed, match="computed"):
        check_results(two_answers, [Run({}, "1")], [Run({}, "2")])
    with pytest.raises(SideFailed, match="different results in different runs"):
        check_results(two_answers, [Run({}, "1"), Run({}, "2")], [Run({}, "1")])


def test_a_noisy_block_is_run_again_but_not_for_ever(tmp_path: Path) -> None:
    nothing = python("pass", Result.NONE)
    said: list[str] = []
    noisy = Calibration(chain(repeat(1.0, 5), repeat(1.5)).__next__)
    blocks = run_case(case(nothing, nothing), Bench(tmp_path), 2, noisy, said.append)
    assert [block.off for block in blocks] == pytest.approx([0.5, 0.5])
    assert sum("50% off" in line for line in said) == 2
    said.clear()
    run_case(case(nothing, nothing), Bench(tmp_path), 1, Calibration(lambda: 1.0), said.append)
    assert len(said) == 1


def test_ratios_are_taken_between_neighbours_and_the_page_shows_losses_too() -> None:
    def run(cpu: float) -> Run:
        return Run({"wall": cpu, "cpu": cpu}, "r")

    block = Block((run(1), run(3)), (run(2), run(4)), off=0.0)
    assert block.ratios("cpu") == [0.5, 0.75]
    result = figures(case(python("1"), python("2")), [block], scale=1)
    assert result["targets"] == [{"metric": "cpu", "at_most": 0.5, "absolute": False, "figure": 0.625, "met": False}]
    assert json.loads(json.dumps(result)) == result
    text = page.page([result])
    assert "| [A case](#a-case): CPU time | at most 0.5 × | 0.62 × | **no** |" in text
    assert "0.5 × **missed**" in text
    assert sys.executable not in text


def test_sizes_follow_the_scale_down_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for scale, rows in (("2", 2000), ("0.01", 10), ("0.0001", 1)):
        monkeypatch.setenv("BENCH_SCALE", scale)
        assert sized(1000) == rows


def test_a_peer_that_cannot_be_installed_is_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peers, "FOLDER", tmp_path)
    monkeypatch.setenv("MERE_HOME", str(tmp_path))
    (tmp_path / "requirements-none.txt").write_text("not a requirement!\n", encoding="utf-8")
    alone = replace(case(python("1"), replace(python("1", Result.NONE), environment="none")), prepare=None)
    assert measure([replace(alone, ours=alone.peer)]) == []
    assert "skipped: " in capsys.readouterr().out


def test_long_cases_are_measured_only_by_name() -> None:
    by_name = [each for each in CASES if each.by_name]
    assert by_name
    assert not any(is_chosen(each, []) for each in by_name)
    assert all(is_chosen(each, [each.name]) for each in by_name)


def test_every_case_has_its_own_name_and_existing_scripts() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    sides = [side for case in CASES for side in (case.ours, case.peer, case.prepare) if side]
    scripts = {part for side in sides for part in side.command if part.startswith("{sides}/")}
    folder = Path(__file__).resolve().parents[2] / "bench" / "sides"
    environments = {side.environment for side in sides if side.environment}
    assert [name for name in environments if not (folder.parent / "peers" / f"requirements-{name}.txt").exists()] == []
    assert [script for script in scripts if not (folder / script.removeprefix("{sides}/")).exists()] == []

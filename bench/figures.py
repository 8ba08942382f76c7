"""From blocks to the figures that are kept: bench/results/<case>.json."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.blocks import TOLERANCE, Block
from bench.case import Case, Target
from bench.machine import machine, versions
from bench.measure import Run

RESULTS = Path(__file__).resolve().parent / "results"

Figures = dict[str, Any]


def figures(case: Case, blocks: Sequence[Block], scale: float) -> Figures:
    ours, peer = (
        [run for block in blocks for run in block.ours],
        [run for block in blocks for run in block.peer],
    )
    metrics = {}
    for metric in case.metrics:
        metrics[metric] = {
            "ours": summary(values(ours, metric)),
            "peer": summary(values(peer, metric)),
            "ratio": summary([ratio for block in blocks for ratio in block.ratios(metric)]),
        }
    return {
        "name": case.name,
        "title": case.title,
        "about": case.about,
        "ours": case.ours.label,
        "peer": case.peer.label,
        "same_result": case.same_result,
        "measured": datetime.now(UTC).date().isoformat(),
        "scale": scale,
        "blocks": len(blocks),
        "noisy_blocks": sum(block.off > TOLERANCE for block in blocks),
        "machine": machine(),
        "versions": versions(),
        "metrics": metrics,
        "targets": [judged(target, metrics) for target in case.targets],
        "runs": {"ours": [rounded(run) for run in ours], "peer": [rounded(run) for run in peer]},
    }


def values(runs: Sequence[Run], metric: str) -> list[float]:
    return [run.metrics[metric] for run in runs if metric in run.metrics]


def summary(numbers: Sequence[float]) -> dict[str, float] | None:
    if not numbers:
        return None
    low, _, high = statistics.quantiles(numbers, method="inclusive") if len(numbers) > 1 else [numbers[0]] * 3
    return {
        name: significant(value)
        for name, value in (
            ("median", statistics.median(numbers)),
            ("low", low),
            ("high", high),
            ("min", min(numbers)),
            ("max", max(numbers)),
        )
    }


def judged(target: Target, metrics: dict[str, Any]) -> dict[str, Any]:
    figure = metrics[target.metric]["ours" if target.absolute else "ratio"]["median"]
    return {
        "metric": target.metric,
        "at_most": target.at_most,
        "absolute": target.absolute,
        "figure": figure,
        "met": figure <= target.at_most,
    }


def significant(value: float) -> float:
    return float(f"{value:.4g}")


def rounded(run: Run) -> dict[str, float]:
    return {name: significant(value) for name, value in sorted(run.metrics.items())}


def save(result: Figures) -> None:
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(result, indent=2, ensure_ascii=False) + "\n"
    (RESULTS / f"{result['name']}.json").write_text(text, encoding="utf-8")


def saved() -> list[Figures]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]

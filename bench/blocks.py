"""ABBA blocks: ours, peer, peer, ours; each pair of neighbours gives one ratio."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import fmean

from bench.case import Case
from bench.measure import Bench, Run, SideFailed, calibrate

TOLERANCE = 0.10
RETRIES = 2
"""A block is run again at most so often, and all blocks of a case together at most as often as it has blocks.
Then the steadiest attempt counts, marked as noisy."""


@dataclass(frozen=True)
class Block:
    ours: tuple[Run, Run]
    peer: tuple[Run, Run]
    off: float
    "How far the calibration loop was from the reference while the block ran, as a fraction."

    def ratios(self, metric: str) -> list[float]:
        return [
            ours.metrics[metric] / peer.metrics[metric]
            for ours, peer in zip(self.ours, self.peer, strict=True)
            if metric in ours.metrics and peer.metrics.get(metric)
        ]


@dataclass
class Calibration:
    """The reference is the fastest loop so far: noise only ever slows a machine down."""

    loop: Callable[[], float] = calibrate
    reference: float = field(init=False)

    def __post_init__(self) -> None:
        self.reference = min(self.loop() for _ in range(5))

    def now(self) -> float:
        took = self.loop()
        self.reference = min(self.reference, took)
        return took

    def off(self, loops: Iterable[float]) -> float:
        return max(loops) / self.reference - 1


def run_block(case: Case, bench: Bench, calibration: Calibration) -> Block:
    before = calibration.now()
    first = bench.run(case.ours)
    second = bench.run(case.peer)
    between = calibration.now()
    third = bench.run(case.peer)
    fourth = bench.run(case.ours)
    after = calibration.now()
    return Block((first, fourth), (second, third), calibration.off([before, between, after]))


def run_case(
    case: Case, bench: Bench, blocks: int, calibration: Calibration, say: Callable[[str], None]
) -> list[Block]:
    if case.prepare:
        bench.run(case.prepare)
    # Uncounted: fills the caches that a second start finds, and shows early whether both do the same work.
    check_results(case, [bench.run(case.ours)], [bench.run(case.peer)])
    done: list[Block] = []
    spare = blocks
    for number in range(1, blocks + 1):
        attempts = [run_block(case, bench, calibration)]
        while attempts[-1].off > TOLERANCE and len(attempts) <= RETRIES and spare:
            say(f"block {number}: the calibration loop was {attempts[-1].off:.0%} off; again")
            attempts.append(run_block(case, bench, calibration))
            spare -= 1
        block = min(attempts, key=lambda attempt: attempt.off)
        check_results(case, block.ours, block.peer)
        done.append(block)
        ratios = {metric: block.ratios(metric) for metric in case.metrics}
        say(f"block {number}: " + ", ".join(f"{name} {fmean(both):.2f}" for name, both in ratios.items() if both))
    return done


def check_results(case: Case, ours: Iterable[Run], peer: Iterable[Run]) -> None:
    """No time counts before the work is known to be the same."""
    mine, theirs = {run.result for run in ours}, {run.result for run in peer}
    if len(mine) > 1 or len(theirs) > 1:
        raise SideFailed(f"{case.name}: a side gave different results in different runs: {mine} {theirs}")
    if case.same_result and mine != theirs:
        raise SideFailed(f"{case.name}: {case.ours.label} computed {mine}, {case.peer.label} {theirs}")

"""What is compared with what, and what was promised. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Result(StrEnum):
    """How a side tells what it computed, so that only equal work is compared."""

    JSON = "json"  # the last line of its output: {"result": hash, "timings": {name: seconds}}
    OUTPUT = "output"  # whatever it prints
    NONE = "none"  # a floor, or output that holds times: only its success counts


@dataclass(frozen=True)
class Side:
    """One command, run in a fresh folder. `{python}`, `{mere}`, `{sides}` and `{shared}` are filled in."""

    label: str
    command: tuple[str, ...]
    result: Result = Result.JSON
    jvm: bool = True
    "Whether it may start one; a side that must not is failed when it does."
    environment: str | None = None
    "Whose Python it is, of bench/peers/requirements-<name>.txt; None: ours."


@dataclass(frozen=True)
class Target:
    metric: str
    at_most: float
    absolute: bool = False
    "Of our own figure; otherwise of the ratio ours / peer."


@dataclass(frozen=True)
class Case:
    name: str
    title: str
    about: str
    ours: Side
    peer: Side
    metrics: tuple[str, ...]
    targets: tuple[Target, ...] = ()
    same_result: bool = True
    prepare: Side | None = None
    "Run once before all blocks; what it leaves in `{shared}` is there for both sides."
    blocks: int | None = None
    "At most so many, where a run takes long."
    by_name: bool = False
    "Only measured if it is asked for, by its name or a pattern."

    def __post_init__(self) -> None:
        unknown = {target.metric for target in self.targets} - set(self.metrics)
        if unknown:
            raise ValueError(f"{self.name}: a target for {sorted(unknown)}, which is not measured")

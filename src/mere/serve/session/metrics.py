"""What the server counts, in Prometheus's format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

_BOUNDS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)  # seconds


@dataclass(frozen=True)
class Used:
    """How much of something that is limited is taken."""

    name: str
    now: int
    most: int
    about: str


@dataclass
class Metrics:
    """All are counted by the event loop alone."""

    connections: int = 0
    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)  # by SQLSTATE
    statements: int = 0
    errors: Counter[str] = field(default_factory=Counter)  # by SQLSTATE
    rows: int = 0
    seconds: float = 0.0
    at_most: list[int] = field(default_factory=lambda: [0] * len(_BOUNDS))

    def statement(self, seconds: float, rows: int, failed: str | None) -> None:
        self.statements += 1
        self.rows += rows
        self.seconds += seconds
        for index, bound in enumerate(_BOUNDS):
            self.at_most[index] += seconds <= bound
        if failed:
            self.errors[failed] += 1

    def text(self, at_work: int, waiting: int, used: Sequence[Used] = ()) -> str:
        lines = []

        def tell(name: str, kind: str, about: str, *samples: tuple[str, float]) -> None:
            lines.extend([f"# HELP mere_{name} {about}", f"# TYPE mere_{name} {kind}"])
            lines.extend(f"mere_{name}{labels} {value}" for labels, value in samples)

        tell("connections", "gauge", "Clients that are connected.", ("", self.connections))
        tell("connections_total", "counter", "Clients that have connected.", ("", self.accepted))
        tell("connections_refused_total", "counter", "By SQLSTATE.", *_labelled(self.refused))
        tell("jobs", "gauge", "Jobs that run or wait for a worker.", ("", at_work))
        tell("jobs_waiting", "gauge", "Jobs that wait for a worker.", ("", waiting))
        for each in used:
            tell(each.name, "gauge", each.about, ("", each.now))
            tell(f"{each.name}_limit", "gauge", f"How many there may be: {each.about}", ("", each.most))
        tell("errors_total", "counter", "Statements that failed, by SQLSTATE.", *_labelled(self.errors))
        tell("rows_total", "counter", "Rows that were sent.", ("", self.rows))
        buckets = [(f'_bucket{{le="{bound}"}}', count) for bound, count in zip(_BOUNDS, self.at_most, strict=True)]
        buckets += [('_bucket{le="+Inf"}', self.statements), ("_count", self.statements)]
        about = "How long statements took, with sending their rows."
        tell("statement_seconds", "histogram", about, *buckets, ("_sum", round(self.seconds, 6)))
        return "\n".join(lines) + "\n"


def _labelled(counts: Counter[str]) -> list[tuple[str, float]]:
    return [(f'{{sqlstate="{name}"}}', count) for name, count in sorted(counts.items())]

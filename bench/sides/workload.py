"""The pointers of the fork-and-publish cases, the same for both sides."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.sides.answer import sized
from bench.sides.metadata import write_metadata

ROUNDS = 5
"Forks and publishes in one process; the median of their times is the run's."

Pointer = tuple[str, str, str]
"Namespace, table, metadata file."


@dataclass(frozen=True)
class Workload:
    rows: int
    snapshots: int

    @property
    def tables(self) -> int:
        return sized(1000)

    @property
    def changed(self) -> int:
        return sized(100)

    def first(self, warehouse: Path) -> list[Pointer]:
        return [self._pointer(warehouse, number, 0) for number in range(self.tables)]

    def changes(self, warehouse: Path, version: int) -> list[Pointer]:
        """Each version changes other tables, spread over all of them."""
        step = self.tables // self.changed
        return [self._pointer(warehouse, number, version) for number in range(version % step, self.tables, step)]

    def _pointer(self, warehouse: Path, number: int, version: int) -> Pointer:
        namespace, name = f"schema{number % 10}", f"table{number:05d}"
        location = warehouse / namespace / name
        return namespace, name, write_metadata(location, version, self.snapshots + bool(version), self.rows)


def workload() -> Workload:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--snapshots", type=int, default=1)
    arguments = parser.parse_args()
    return Workload(arguments.rows, arguments.snapshots)


def comparable(rows: Iterator[Pointer]) -> list[list[str]]:
    """Pointers without the folder that they happen to be in."""
    return sorted([namespace, name, Path(location).name] for namespace, name, location in rows)

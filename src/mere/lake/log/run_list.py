"""Runs as one table: what `mere runs` prints, and a notebook shows."""

from __future__ import annotations

from collections.abc import Iterable

from mere.lake.log.runs import Run
from mere.text.notebook import Column, Listing
from mere.text.words import moment

COLUMNS = (
    Column("run"), Column("state"), Column("for"), Column("started"), Column("seconds", True), Column("models", True),
    Column("by"),
)  # fmt: skip


def cells(run: Run) -> tuple[object, ...]:
    seconds = f"{run.seconds:.1f}" if run.ended_at and run.seconds is not None else ""
    built = [each for each in run.models.values() if each["state"] == "built"]
    return run.id, run.status, run.target, moment(run.started_at), seconds, len(built), run.author


def listing(runs: Iterable[Run]) -> Listing[Run]:
    return Listing(runs, "runs", COLUMNS, cells)

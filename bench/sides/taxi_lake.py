"""Where mere and the script by hand start: a lake in this folder with the month of trips, adopted without a copy."""

from __future__ import annotations

from bench.sides.taxi import SOURCE, checked, shared
from mere.lake.lake import Lake


def lake_of_the_month() -> Lake:
    lake = Lake.create("lake")
    lake.adopt(shared("source.txt").read_text(encoding="utf-8"), name=SOURCE)
    return lake


def result(lake: Lake) -> list[list[str]]:
    def rows(query: str) -> list[object]:
        with lake.sql(query) as found:
            return list(found)

    return checked(rows)

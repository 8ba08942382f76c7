"""The data that an example starts with: only a little, so that the first run is quick."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mere.generate.files import Dataset

FOLDER = Path("data")  # in the project


@dataclass(frozen=True)
class Sample:
    dataset: Dataset
    more: str  # the command that writes more of the same, beside it


def sample(example: str) -> Sample | None:
    """None: the example has its data with it."""
    match example:
        case "taxi":
            from mere.generate.taxi import Taxi

            return Sample(Taxi(months=2, rows=20_000), f"mere generate taxi --months 3 --rows 20000 {FOLDER}")
        case "market":
            from mere.generate.market import Market

            return Sample(Market(days=10, tickers=5), f"mere generate market --days 20 --tickers 5 {FOLDER}")
    return None

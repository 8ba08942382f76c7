from __future__ import annotations

from pathlib import Path

import pytest

from mere.generate.files import write
from mere.generate.jaffle import Jaffle
from mere.generate.market import Market
from mere.generate.taxi import Taxi


@pytest.fixture(scope="session")
def trips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two months of 20,000 trips."""
    folder = tmp_path_factory.mktemp("taxi")
    list(write(Taxi(months=2, rows=20_000), folder))
    return folder


@pytest.fixture(scope="session")
def bars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The days around the change to summer time, with malformed lines and a new column on the third."""
    from mere.windows import instant

    folder = tmp_path_factory.mktemp("market")
    list(write(Market(4, 6, start=instant("2024-03-07"), poison=0.01, new_column_at=instant("2024-03-11")), folder))
    return folder


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 customers and five exports, of which the last is not of a whole month."""
    folder = tmp_path_factory.mktemp("jaffle")
    list(write(Jaffle(customers=300, days=130), folder))
    return folder

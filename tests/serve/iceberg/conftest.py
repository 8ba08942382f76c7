"""A small lake, served for the length of a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mere.lake.lake import Lake
from tests.lake import orders
from tests.serve.iceberg.rest import Rest, serving


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with orders.create(tmp_path) as lake:
        lake.branch("dev")
        yield lake


@pytest.fixture
def rest(lake: Lake) -> Iterator[Rest]:
    with serving(lake) as running:
        yield running

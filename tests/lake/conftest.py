"""A lake at the place that a module's fixture `at` chooses, and an engine that writes to it as others would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mere.lake import faults
from mere.lake.lake import Lake
from tests.lake.foreign import Foreign
from tests.lake.places import Place


@pytest.fixture
def lake(at: Place) -> Iterator[Lake]:
    with at.create() as lake:
        yield lake
    faults.hook = None


@pytest.fixture
def engine(at: Place, lake: Lake) -> Foreign:
    return at.engine(lake)

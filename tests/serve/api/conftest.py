"""A small project with its lake behind the API, served for the length of a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mere.api.project import Project
from mere.lake.lake import Lake
from tests.api.test_project import write
from tests.lake.orders import CUSTOMERS, ORDERS
from tests.lake.orders import write as land
from tests.serve.api.api import Api, serving

FILES = {
    "mere.yaml": "name: shop\nprofiles:\n  local:\n    lake: lake\n",
    "seeds/raw/cities.csv": "id,city\n1,Bern\n2,Rome\n",
    "models/gold/cities.sql": "-- audits:\n--   - unique: id\nSELECT id, city FROM raw.cities\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    write(tmp_path / "shop", FILES)
    with Lake.create(tmp_path / "shop" / "lake") as lake:
        land(lake, "gold.orders", ORDERS)
        land(lake, "gold.customers", CUSTOMERS)
        lake.branch("dev")
    with Project.open(tmp_path / "shop") as project:
        yield project


@pytest.fixture
def lake(project: Project) -> Lake:
    return project.lake


@pytest.fixture
def api(project: Project) -> Iterator[Api]:
    with serving(project) as running:
        yield running

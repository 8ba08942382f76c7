"""mere doctor and the Trino that a profile names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mere.doctor import Subject, examine
from mere.doctor.checkup import checks
from mere.doctor.findings import Finding, State
from mere.lake.lake import Lake
from mere.serve.connect import trino
from mere.serve.connect.place import Place
from tests.lake import orders
from tests.serve.iceberg.rest import serving
from tests.services.postgres import free_port
from tests.services.trino import Trino


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        orders.write(lake, "gold.orders", orders.ORDERS)
        yield lake


def found(folder: Path, url: str) -> dict[str, Finding]:
    file = folder / "mere.yaml"
    file.write_text(f"name: shop\nprofiles: {{local: {{trino: '{url}'}}}}\n")
    subject = Subject(file, None, lambda: Lake.open(folder / "lake"))
    asked = [check for check in checks(subject, with_spark=False) if check.part == "trino" or check.name == "opens"]
    return {each.check: each for each in examine(asked, subject) if each.part == "trino"}


def test_it_is_only_looked_for_where_the_profile_names_one(tmp_path: Path, lake: Lake) -> None:
    file = tmp_path / "mere.yaml"
    file.write_text("name: shop\n")
    subject = Subject(file, None, lambda: lake)
    assert [check for check in checks(subject) if check.part == "trino"] == []


def test_one_that_is_not_there_does_not_answer(tmp_path: Path, lake: Lake) -> None:
    bad = found(tmp_path, f"http://127.0.0.1:{free_port()}")
    assert bad["answers"].state is State.FAILED
    assert "Connection refused" in bad["answers"].what
    assert "trino: https://" in (bad["answers"].remedy or "")
    assert bad["catalog"].state is State.SKIPPED


def test_another_server_is_no_trino(tmp_path: Path, lake: Lake) -> None:
    with serving(lake) as rest:
        bad = found(tmp_path, f"http://127.0.0.1:{rest.port}")
    assert bad["answers"].state is State.FAILED


def test_a_real_one_has_the_lake_as_a_catalog(tmp_path: Path, lake: Lake, trino_server: Trino) -> None:
    bad = found(tmp_path, trino_server.url)
    assert (bad["answers"].state, "Trino 476" in bad["answers"].what) == (State.OK, True)
    assert (bad["catalog"].state, "no catalog main" in bad["catalog"].what) == (State.FAILED, True)
    with serving(lake) as rest, closing(trino_server.connect()) as connection:
        place = Place("main", "x", host="127.0.0.1", http_port=rest.port, trusted=True)
        connection.fetchall(trino.as_sql("main", trino.by_rest(place)).strip().rstrip(";"))
        try:
            good = found(tmp_path, trino_server.url)
        finally:
            connection.fetchall("DROP CATALOG main")
    assert good["catalog"].state is State.OK
    assert good["catalog"].what == "its catalog main has the 1 schemas of main"

"""What a plan says besides its steps."""

from __future__ import annotations

from pathlib import Path

import mere
from mere.lake.lake import Lake
from tests.lake.orders import ORDERS, write

VIEW = (
    "-- kind: view\n-- off: {missing-key: x, missing-audit: x}\nSELECT id, initcap(customer) AS name FROM bronze.people"
)


def test_it_notes_the_views_that_trino_cannot_read_where_the_profile_names_one(tmp_path: Path) -> None:
    (tmp_path / "models" / "gold").mkdir(parents=True)
    (tmp_path / "models" / "gold" / "names.sql").write_text(VIEW)
    settings = tmp_path / "mere.yaml"
    settings.write_text("name: shop\n")
    with Lake.create(tmp_path / "lake") as lake:
        write(lake, "bronze.people", ORDERS)
    with mere.Project.open(tmp_path) as project:
        assert project.plan().notes == []
    settings.write_text("name: shop\nprofiles: {local: {trino: 'http://localhost:8080'}}\n")
    with mere.Project.open(tmp_path) as project:
        (note,) = project.plan().notes
        assert note.startswith("gold.names: cannot be read from Trino: `INITCAP(customer)` is not proven")
        (step,) = project.plan().to_dict()["steps"]
        assert step["notes"] == [note.removeprefix("gold.names: ")]

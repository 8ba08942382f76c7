"""The record of a run: what it has after a resume, and where it cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from mere.errors import LakeUnreadable, RunFailed
from mere.lake.lake import Lake
from mere.lake.log.runs import Run, RunStatus
from mere.pipeline.run.record import Record
from tests.pipeline.conftest import MakeShop

QUARANTINED = {
    "seeds/raw/n.csv": "id\n1\n-1\n",
    "models/silver/n.sql": """
        -- audits: [{assert: id > 0, quarantine: true, max_bad: 1}]
        SELECT id FROM raw.n
    """,
    "models/gold/n.sql": """
        -- audits: [{assert: id > 5}]
        SELECT id FROM silver.n
    """,
}


def test_a_resumed_run_has_models_and_not_the_tables_beside_them(shop: MakeShop) -> None:
    """The state of a quarantine says which run has filled it, as that of a model does."""
    it = shop(QUARANTINED)
    id_, _ = it.failed_run()
    it.replace("models/gold/n.sql", "id > 5", "id > 0")
    it("run", "--resume", id_)
    first, second = it.runs()[0]["attempts"]
    assert (set(first["models"]), set(second["models"])) == ({"raw.n", "silver.n", "gold.n"}, {"gold.n"})
    assert "__quarantine" not in it("runs", "show", id_).stdout


@pytest.mark.parametrize("error", [RunFailed("gold.t failed", remedy="Resume it"), KeyboardInterrupt()])
def test_why_a_run_ended_is_told_though_there_was_no_room_to_write_it_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    with Lake.create(tmp_path / "lake") as lake:
        now, save = lake.now(), lake.store.save_run

        def save_while_there_is_room(run: Run) -> bool:
            if run.status is not RunStatus.RUNNING:
                raise LakeUnreadable("There is no room.")
            return save(run)

        monkeypatch.setattr(lake.store, "save_run", save_while_there_is_room)
        run = Run("r1", "main", "run_r1", RunStatus.RUNNING, "ann", now, now)
        with pytest.raises(type(error)) as told, Record(lake.store, run).kept(lambda: None):
            raise error
        assert told.value is error
        assert [each.status for each in lake.runs()] == [RunStatus.RUNNING]

"""The record of a run, where it cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from mere.errors import LakeUnreadable, RunFailed
from mere.lake.lake import Lake
from mere.lake.log.runs import Run, RunStatus
from mere.pipeline.run.record import Record


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

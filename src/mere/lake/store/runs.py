"""The rows of runs."""

from __future__ import annotations

import orjson

from mere.lake.log.runs import Run, RunStatus
from mere.lake.store import rows
from mere.lake.store.rows import stamp

RUN = "id, target, branch, status, author, started_at, ended_at, beat_at, about"
_COLUMNS = RUN.split(", ")
_SET = ", ".join(f"{column} = excluded.{column}" for column in _COLUMNS[1:])
SAVE = (
    f"INSERT INTO mere_runs ({RUN}) VALUES ({', '.join('?' * len(_COLUMNS))})"
    f" ON CONFLICT (id) DO UPDATE SET {_SET} WHERE mere_runs.branch = excluded.branch"
)
HAND_OVER = f"UPDATE mere_runs SET {', '.join(f'{column} = ?' for column in _COLUMNS[1:])} WHERE id = ? AND branch = ?"


def to_row(run: Run) -> rows.Row:
    ended = stamp(run.ended_at) if run.ended_at else None
    about = orjson.dumps(dict(run.about)).decode()
    times = (stamp(run.started_at), ended, stamp(run.beat_at))
    return (run.id, run.target, run.branch, run.status.value, run.author, *times, about)


def to_run(row: rows.Row) -> Run:
    id_, target, branch, status, author, started, ended, beat, about = row
    ended_at = rows.time(ended) if ended else None
    times = (rows.time(started), rows.time(beat), ended_at)
    return Run(id_, target, branch, RunStatus(status), author, *times, orjson.loads(about))

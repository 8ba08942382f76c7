"""Spark: its jars, its class data archive, and a small end-to-end job."""

from __future__ import annotations

import posixpath
import secrets
from itertools import takewhile

from mere.doctor.context import Subject, clear
from mere.doctor.findings import Verdict
from mere.engine.jvm import archive
from mere.engine.jvm.jars import cached, is_intact
from mere.engine.jvm.process import prepare
from mere.engine.session import session
from mere.lake.lake import Lake
from mere.lake.log.refs import Ref
from mere.lake.log.runs import holder
from mere.lake.store.health import PROBE
from mere.names import TableName

ROWS = 1000


def jars(subject: Subject) -> Verdict:
    states = {jar: is_intact(jar) for jar in subject.jars}
    damaged = [str(cached(jar)) for jar, intact in states.items() if intact is False]
    if damaged:
        return Verdict.failed(
            f"not the jars that mere was built with: {', '.join(damaged)}",
            f"Remove them, and they are fetched again: rm {' '.join(damaged)}",
        )
    missing = [jar.file_name for jar, intact in states.items() if intact is None]
    if missing:
        return Verdict(f"will be fetched at first use: {', '.join(missing)}")
    return Verdict(f"{len(states)} are in {cached(subject.jars[0]).parent}, as they were pinned")


def class_data(subject: Subject) -> Verdict:
    if not all(map(is_intact, subject.jars)):
        return Verdict.skipped("built once the jars have been fetched")
    found = archive.find(prepare(subject.settings, drivers=subject.drivers))
    if found is None:
        return Verdict("not built yet: Spark starts more slowly until the first session has ended")
    return Verdict(f"{found.name}, {found.stat().st_size / 1e6:.0f} MB: Spark starts fast")


def job(subject: Subject) -> Verdict:
    """Fork, write, read, as a run does; then all of it is taken back. If this is killed, `mere gc` finds the branch."""
    lake = subject.lake
    name = f"probe_{secrets.token_hex(8)}"
    table, folder = f"{PROBE}.{name}", posixpath.join(lake.warehouse, PROBE, name)
    id_ = secrets.token_hex(6)
    with lake.lease([TableName(PROBE, name)], holder(id_)):  # as long as it holds, no sweep takes it for dead
        branch = lake.run_branch(id=id_, author="mere doctor")
        found = _written_and_read(subject, branch, table, folder)
    if found != (ROWS, ROWS * (ROWS - 1) // 2):
        return Verdict.failed(f"{ROWS} rows were written, and others read back: {found}", "Please report this.")
    return Verdict(f"{ROWS} rows were written to a branch of their own and read back; the branch is gone")


def _written_and_read(subject: Subject, branch: Ref, table: str, folder: str) -> tuple[int, ...]:
    lake = subject.lake
    try:
        with session(lake, branch.name, settings=subject.settings) as opened:
            opened.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {PROBE}")
            place = folder.replace("\\", r"\\").replace("'", r"\'")
            opened.spark.sql(f"CREATE TABLE {table} USING iceberg LOCATION '{place}' AS SELECT id FROM range({ROWS})")
            return tuple(opened.spark.sql(f"SELECT count(*), sum(id) FROM {table}").collect()[0])
    finally:
        _take_back(lake, branch, folder)


def _take_back(lake: Lake, branch: Ref, folder: str) -> None:
    """The branch first, its commits next, its files last: whenever this ends, nothing points to a file that is gone."""
    tables = lake.at(branch.name)
    written = [tables.metadata(table).folder for table in tables if table.namespace == PROBE]  # a server chooses itself
    history = lake.store.ancestors(lake.at(branch.name).commit)
    commits = [commit.seq for commit in takewhile(lambda commit: commit.seq > branch.head, history)]
    lake.delete(branch.name)
    lake.store.expire(commits)
    # A commit at which somebody made a branch meanwhile does not expire.
    if all(lake.store.commit_by_seq(seq).expired for seq in commits):
        for each in {folder, *filter(None, written)}:
            clear(lake.storage, each)

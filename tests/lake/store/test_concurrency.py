"""Several processes fork, write with real engines and publish at once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mere.lake.lake import Lake
from mere.lake.log.commits import CommitKind
from tests.lake.places import LOCAL, POSTGRES, S3, Place, place

HERE = Path(__file__).parents[3]
PAIR = ("a.left", "a.right")
SCHEMA = pa.schema([("writer", pa.string()), ("turn", pa.int64())])

WRITER = """
import json, sys
from mere.errors import LakeConflict
from mere.lake.lake import Lake

root, catalog, name, engine, turns = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5])
lake = Lake.open(root, catalog=catalog or None)
if engine == "spark":
    from mere.engine.session import session
    opened = session(lake, "main")
else:
    import pyarrow as pa

def append(branch, table, turn):
    if engine == "spark":
        opened.use(branch)
        opened.spark.sql(f"INSERT INTO {table} VALUES ('{name}', {turn})")
    else:
        row = pa.table({"writer": [name], "turn": pa.array([turn], pa.int64())})
        lake.pyiceberg(branch).load_table(table).append(row)

done, conflicts = [], []
print("ready", flush=True)
sys.stdin.readline()
for turn in range(turns):
    while True:
        run = lake.run_branch()
        for table in ("a.left", "a.right"):
            append(run.name, table, turn)
        try:
            done.append(lake.publish(run.name, author=name, run=f"{name}-{turn}").commit.id)
            break
        except LakeConflict as error:
            conflicts.append([run.head, [[str(c.key), c.theirs.seq] for c in error.conflicts]])
            lake.delete(run.name)
        finally:
            if engine == "spark":
                opened.use("main")
                opened.detach(run.name)
print(json.dumps({"done": done, "conflicts": conflicts}), flush=True)
if engine == "spark":
    opened.stop()
"""

READER = """
import json, select, sys
from mere.lake.lake import Lake

lake = Lake.open(sys.argv[1], catalog=sys.argv[2] or None)
print("ready", flush=True)
apart, seen = 0, set()
while not select.select([sys.stdin], [], [], 0)[0]:
    found = lake.at("main")
    left, right = (found.metadata(t).rows for t in ("a.left", "a.right"))
    apart += left != right
    seen.add(left)
    ((left, right),) = lake.sql("select (select count(*) from a.left), (select count(*) from a.right)").rows()
    apart += left != right
    seen.add(left)
print(json.dumps({"apart": apart, "seen": sorted(seen)}), flush=True)
"""


@pytest.fixture(params=[LOCAL, POSTGRES, pytest.param(S3, marks=pytest.mark.long)])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place(request.param, tmp_path, request)


@pytest.fixture
def lake(at: Place) -> Iterator[Lake]:
    with at.create() as lake:
        tables = lake.pyiceberg("main")
        tables.create_namespace("a")
        for table in PAIR:
            tables.create_table(table, SCHEMA)
        yield lake


def start(at: Place, script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, at.path, at.catalog or "", *arguments],
        cwd=HERE,
        env=at.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def result(process: subprocess.Popen[str]) -> Any:
    out, _ = process.communicate(timeout=240)
    assert process.returncode == 0
    return json.loads(out.splitlines()[-1])


def publish_at_once(lake: Lake, at: Place, writers: dict[str, str], turns: int) -> None:
    reader = start(at, READER)
    processes = {name: start(at, WRITER, name, engine, str(turns)) for name, engine in writers.items()}
    for process in (reader, *processes.values()):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes.values():
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    results = {name: result(process) for name, process in processes.items()}
    time.sleep(0.2)
    read = result(reader)

    published = [commit for commit in lake.log() if commit.kind is CommitKind.PUBLISH]
    assert {commit.id for commit in published} == {id_ for r in results.values() for id_ in r["done"]}
    assert {commit.run for commit in published} == {f"{name}-{turn}" for name in writers for turn in range(turns)}
    expected = sorted((name, turn) for name in writers for turn in range(turns))
    for table in PAIR:
        rows = lake.pyiceberg("main").load_table(table).scan().to_arrow().to_pylist()
        assert sorted((row["writer"], row["turn"]) for row in rows) == expected
    by_seq = {commit.seq: commit for commit in published}
    for outcome in results.values():
        for forked_at, clashes in outcome["conflicts"]:
            for key, theirs in clashes:
                assert theirs > forked_at
                assert key in {str(change.key) for change in by_seq[theirs].changes}
    assert read["apart"] == 0
    assert len(read["seen"]) > 1
    assert [ref.name for ref in lake.refs()] == ["main"]


@pytest.mark.service
def test_no_update_is_lost_and_no_reader_sees_half_of_a_publish(lake: Lake, at: Place) -> None:
    # Spark beside them on one database: it reaches each by the same catalog of Iceberg's.
    third = "spark" if at.catalog is None else "pyiceberg"
    publish_at_once(lake, at, {"ann": "pyiceberg", "bob": "pyiceberg", "eve": third}, turns=4)


@pytest.mark.long
def test_many_writers_for_a_long_time(lake: Lake, at: Place) -> None:
    writers = {"ann": "pyiceberg", "bob": "pyiceberg", "cyd": "pyiceberg", "eve": "spark", "fay": "spark"}
    publish_at_once(lake, at, writers, turns=15)

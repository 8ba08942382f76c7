"""The example `taxi` by `mere run`, with two cores of Spark: python taxi_engines.py local|s3|shared|cluster.

What has to be there is started before, and not timed: Postgres, an S3 server, a shared engine, a master and workers.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from bench.sides import server
from bench.sides.answer import answer
from bench.sides.taxi_files import checked, folder
from mere.lake.lake import Lake
from tests.services.cluster import SparkCluster
from tests.services.s3 import S3Server

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "taxi"
MERE = (sys.executable, "-m", "mere")
LOCAL = "{cores: 2, memory: 2g}"


def project(profiles: str) -> None:
    """In this folder, with the settings of this side."""
    shutil.copytree(EXAMPLE, "taxi")
    os.chdir("taxi")
    Path("data").symlink_to(folder(), target_is_directory=True)
    text = Path("mere.yaml").read_text(encoding="utf-8")
    Path("mere.yaml").write_text(f"{text.partition('profiles:')[0]}profiles:\n{profiles}", encoding="utf-8")


def profile(name: str, lake: str, spark: str, endpoint: str | None = None) -> str:
    more = f"    catalog: ${{BENCH_CATALOG}}\n    s3: {{endpoint: '{endpoint}'}}\n" if endpoint else ""
    return f"  {name}:\n    lake: {lake}\n{more}    spark: {spark}\n"


def run() -> float:
    begun = time.perf_counter()
    subprocess.run([*MERE, "run"], check=True, stdout=sys.stderr)
    return time.perf_counter() - begun


def measured(lake: Lake) -> None:
    seconds = run()

    def rows(query: str) -> list[object]:
        with lake.sql(query) as found:
            return list(found)

    answer(checked(rows), run=seconds)


def elsewhere(way: str, stack: ExitStack) -> Lake:
    """The environment then has what its profile needs."""
    s3 = S3Server(Path(tempfile.mkdtemp(prefix="mere-bench-s3-")))
    stack.callback(shutil.rmtree, s3.folder, ignore_errors=True)
    s3.start()
    stack.callback(s3.stop)
    catalog = stack.enter_context(server.running())
    location = f"s3://{s3.new_bucket('bench').removeprefix('s3://')}/lake"
    os.environ.update(
        BENCH_CATALOG=catalog,
        AWS_ACCESS_KEY_ID=s3.settings.access_key,
        AWS_SECRET_ACCESS_KEY=s3.settings.secret_key,
        PYSPARK_PYTHON=sys.executable,
    )
    spark = LOCAL
    if way == "cluster":
        cluster = SparkCluster(Path(tempfile.mkdtemp(prefix="mere-bench-cluster-")))
        cluster.start()
        stack.callback(cluster.stop)
        spark = f"{{master: '{cluster.url}', cores: 2, memory: 1g}}"
    project(profile("local", location, spark, s3.endpoint))
    lake = stack.enter_context(Lake.create(location, catalog=catalog, s3=s3.settings))
    if way == "shared":
        started = [*MERE, "engine", "start", "--shared", "--port", "0", "--ui-port", "0", "--json"]
        said = subprocess.run(started, check=True, capture_output=True, text=True).stdout
        stack.callback(subprocess.run, [*MERE, "engine", "stop", "--shared", "--now"], stdout=sys.stderr)
        remote = profile("team", location, f"{{remote: '{json.loads(said)['url']}'}}", s3.endpoint)
        with Path("mere.yaml").open("a", encoding="utf-8") as file:
            file.write(remote)
        os.environ["MERE_PROFILE"] = "team"
        stack.callback(os.environ.pop, "MERE_PROFILE")
    return lake


with ExitStack() as stack:
    if sys.argv[1] == "local":
        project(profile("local", "lake", LOCAL))
        measured(stack.enter_context(Lake.create("lake")))
    else:
        measured(elsewhere(sys.argv[1], stack))

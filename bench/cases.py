"""Every figure that mere promises, and what it is compared with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.case import Case, Result, Side, Target
from bench.catalog_cases import CATALOGS

COSTS = ("wall", "cpu", "rss")
WRITTEN = ("files", "bytes", "metadata_bytes")


def script(label: str, name: str, *arguments: str, jvm: bool = True) -> Side:
    return Side(label, ("{python}", f"{{sides}}/{name}.py", *arguments), jvm=jvm)


START_UP = Case(
    name="start_up",
    title="A cold Spark session",
    about="A new process starts a session and writes, reads and merges one small Iceberg table. The peer is "
    "PySpark as its documentation starts it, with the same jars from the disk. Cold means a new JVM; "
    "jars and mere's class-data archive were fetched and built before.",
    ours=script("mere", "start_up_mere"),
    peer=script("stock PySpark", "start_up_stock"),
    metrics=(*COSTS, *WRITTEN),
    targets=(Target("cpu", 0.40), Target("wall", 0.45)),
    # Otherwise the first start would build the archive in the background, and the next ones would pay for it.
    prepare=Side("mere", ("{python}", "-m", "mere.engine.rehearsal"), Result.NONE),
)

FORK_PUBLISH = Case(
    name="fork_publish",
    title="Fork and publish",
    about="`lake.branch` of 1,000 tables and `lake.publish` of 100 that changed, against one bare SQLite "
    "transaction that writes as many rows (fork: a row a table; publish: a pointer and a log line a table), "
    "both with WAL and "
    "`synchronous = FULL`. Times are taken inside the process.",
    ours=script("mere", "fork_publish_mere", jvm=False),
    peer=script("bare SQLite", "fork_publish_sqlite", jvm=False),
    metrics=("fork", "publish"),
    targets=(Target("fork", 10), Target("publish", 10)),
)

MORE_ROWS = Case(
    name="fork_publish_rows",
    title="Fork and publish of larger tables",
    about="The same fork and publish over tables of 1,000,000,000 rows (by their metadata) and over tables "
    "of 1,000 rows: neither looks at data, so the ratio is about 1.",
    ours=script("10⁹ rows a table", "fork_publish_mere", "--rows", "1000000000", jvm=False),
    peer=script("10³ rows a table", "fork_publish_mere", "--rows", "1000", jvm=False),
    metrics=("fork", "publish"),
    targets=(Target("fork", 1.25), Target("publish", 1.25)),
)

MORE_SNAPSHOTS = Case(
    name="fork_publish_snapshots",
    title="Fork and publish of tables with a long history",
    about="The same over tables of 100 snapshots and of one: publishing reads each changed table's metadata "
    "file, which grows with every snapshot until snapshots are expired.",
    ours=script("100 snapshots a table", "fork_publish_mere", "--snapshots", "100", jvm=False),
    peer=script("1 snapshot a table", "fork_publish_mere", "--snapshots", "1", jvm=False),
    metrics=("fork", "publish"),
)

ON_POSTGRES = Case(
    name="fork_publish_postgres",
    title="Fork and publish on Postgres",
    about="The same, with the catalog in a Postgres on this machine, against one bare transaction there that "
    "writes as many rows, sent in one batch by psycopg. Both with `fsync`.",
    ours=script("mere", "fork_publish_postgres_mere", jvm=False),
    peer=script("bare Postgres", "fork_publish_postgres_bare", jvm=False),
    metrics=("fork", "publish"),
    targets=(Target("publish", 10),),
)


def row_diff(name: str, title: str, about: str, files: str, label: str, at_most: float) -> Case:
    return Case(
        name=name,
        title=title,
        about='`lake.diff("main", "dev").rows(key=["id"])` of a table of 10 million rows in 100 files, a file a '
        "day, of which 0.1 % differ: late data came for the last ten days, so that ten files were written anew. "
        + about,
        ours=script("mere", "row_diff_mere", jvm=False),
        peer=script(label, "row_diff_duckdb", files, jvm=False),
        metrics=("diff", "diff_cpu", *COSTS),
        targets=(Target("diff_cpu", at_most),),
        prepare=script("PyIceberg", "row_diff_prepare", jvm=False),
    )


ROW_DIFF = row_diff(
    "row_diff",
    "Row diff",
    "The floor is one full join by hand, in DuckDB, of those files before and after, known beforehand; it counts what "
    "mere counts, but finds no samples and does not see whether the key is unique. Times of the diff are taken inside "
    "the process, from opening DuckDB to closing it.",
    "touched",
    "DuckDB, touched files",
    1.5,
)
ROW_DIFF_WHOLE = row_diff(
    "row_diff_whole",
    "Row diff without knowing the touched files",
    "The peer is the same full join of the whole tables, as one has to write it who does not read the manifests.",
    "whole",
    "DuckDB, whole tables",
    0.25,
)

IMPORT_DUCKDB = Side("import duckdb", ("{python}", "-c", "import duckdb"), Result.NONE, jvm=False)


def read(name: str, title: str, *arguments: str, result: Result = Result.NONE) -> Case:
    return Case(
        name=name,
        title=title,
        about=f"`mere {' '.join(arguments)}` on a lake of 20 tables, as a new process, without a JVM. "
        'The floor is `python -c "import duckdb"`.',
        ours=Side("mere", ("{mere}", "--lake", "{shared}/lake", *arguments), result, jvm=False),
        peer=IMPORT_DUCKDB,
        metrics=COSTS,
        targets=(Target("wall", 4),),
        same_result=False,
        prepare=script("PyIceberg", "read_path_prepare", jvm=False),
    )


READ_LOG = read("read_log", "mere log", "log")
READ_TABLES = read("read_tables", "mere tables", "tables")
READ_SQL = read("read_sql", "mere sql", "sql", "select count(*) from sales.orders0", result=Result.OUTPUT)

HELP = Case(
    name="help",
    title="mere --help",
    about="How long the command line takes before it does anything. The floor is a Python that does nothing.",
    ours=Side("mere", ("{mere}", "--help"), Result.OUTPUT, jvm=False),
    peer=Side("python -c pass", ("{python}", "-c", "pass"), Result.NONE, jvm=False),
    metrics=COSTS,
    targets=(Target("wall", 0.5, absolute=True),),
    same_result=False,
)

IMPORT_SQLGLOT = Side("import sqlglot", ("{python}", "-c", "import sqlglot"), Result.NONE, jvm=False)


def up_to_date(command: str, models: int) -> Side:
    # The cache of a project and the lake are where the process runs, so it goes there first.
    line = f'cd "$1" && exec "$2" {command}'
    folder = f"{{shared}}/models_{models}"
    return Side(f"{models:,} models", ("sh", "-c", line, "sh", folder, "{mere}"), Result.OUTPUT, jvm=False)


def nothing_to_do(command: str) -> Case:
    return Case(
        name=f"nothing_to_do_{command}",
        title=f"mere {command} with nothing to do",
        about=f"`mere {command}` of a project of 100 models (seeds, full, incremental, append, views, Python) of which "
        "all are up to date, as a new process, without a JVM. "
        'The floor is `python -c "import sqlglot"`, the parser that every tool of this kind starts with.',
        ours=up_to_date(command, 100),
        peer=IMPORT_SQLGLOT,
        metrics=COSTS,
        targets=(Target("wall", 3), Target("cpu", 3)),
        same_result=False,
        prepare=script("mere", "models_prepare", "100", jvm=False),
    )


def more_models(command: str) -> Case:
    return Case(
        name=f"nothing_to_do_{command}_1000",
        title=f"mere {command} with nothing to do, of ten times as many models",
        about=f"The same `mere {command}` of 1,000 models and of 100. Linear is 10 at most.",
        ours=up_to_date(command, 1000),
        peer=up_to_date(command, 100),
        metrics=COSTS,
        targets=(Target("wall", 10), Target("cpu", 10)),
        same_result=False,
        prepare=script("mere", "models_prepare", "100", "1000", jvm=False),
    )


NO_PLAN, NO_RUN = nothing_to_do("plan"), nothing_to_do("run")
NO_PLAN_1000, NO_RUN_1000 = more_models("plan"), more_models("run")

TAXI = Case(
    name="taxi",
    title="A month of taxi trips",
    about="3 million rows from an Iceberg table through bronze, silver and three gold tables, cold, as one command. "
    "mere does it on a branch, with state, eight audits, and one commit at the end. The floor is a script by hand: "
    "the same queries, the same tables in a lake of the same kind, the same session and class-data archive, and "
    "nothing else. Both begin by adopting the source's table, and end by reading counts and sums of all five tables "
    "with DuckDB, which must be equal; both are in the figures of both.",
    ours=script("mere", "taxi_mere"),
    peer=script("PySpark by hand", "taxi_pyspark"),
    metrics=(*COSTS, *WRITTEN),
    targets=(Target("cpu", 1.10),),
    prepare=script("DuckDB", "taxi_prepare", jvm=False),
    blocks=3,
)


def taxi_peer(name: str, label: str, about: str, side: Side) -> Case:
    return Case(
        name=f"taxi_{name}",
        title=f"A month of taxi trips: {label}",
        about=f"The same month and the same five tables. {about}",
        ours=TAXI.ours,
        peer=side,
        metrics=(*COSTS, *WRITTEN),
        prepare=TAXI.prepare,
        blocks=2,
        by_name=True,
    )


def peer_script(label: str, environment: str, name: str, *arguments: str, jvm: bool = False) -> Side:
    return Side(label, ("{python}", f"{{sides}}/{name}.py", *arguments), jvm=jvm, environment=environment)


_PARQUET = "It reads the month from a Parquet file and writes {what}: no open tables, branches, audits or history."
_DUCKDB = _PARQUET.format(what="a DuckDB file")
_STOCK = "It runs on stock PySpark with the same Iceberg jars, without audits, and writes Iceberg tables."
TAXI_PEERS = (
    taxi_peer("duckdb", "DuckDB", _DUCKDB, script("DuckDB", "taxi_duckdb", jvm=False)),
    taxi_peer("dbt_duckdb", "dbt-duckdb", _DUCKDB, peer_script("dbt-duckdb", "dbt-duckdb", "taxi_dbt", "duckdb")),
    taxi_peer(
        "sqlmesh_duckdb",
        "SQLMesh on DuckDB",
        _DUCKDB,
        peer_script("SQLMesh on DuckDB", "sqlmesh-duckdb", "taxi_sqlmesh", "duckdb"),
    ),
    taxi_peer("sail", "Sail", _PARQUET.format(what="Parquet files"), peer_script("Sail", "sail", "taxi_sail")),
    taxi_peer("dbt_spark", "dbt-spark", _STOCK, peer_script("dbt-spark", "dbt-spark", "taxi_dbt", "spark", jvm=True)),
    taxi_peer(
        "sqlmesh_spark",
        "SQLMesh on Spark",
        _STOCK,
        peer_script("SQLMesh on Spark", "sqlmesh-spark", "taxi_sqlmesh", "spark", jvm=True),
    ),
)

TAXI_FILES = Case(
    name="taxi_files",
    title="A month of taxi trips from files",
    about="The example `taxi`: 3 million rows in a Parquet file, as the TLC writes them, and a lookup of zones become "
    "six tables, cold, as one command. mere loads the files with a ledger and a quarantine, finds duplicates, asks 23 "
    "audits, and publishes one commit. By hand: the same tables in a DuckDB file, without audits, branches or history. "
    "At `BENCH_SCALE=12` it is a year in twelve files.",
    ours=script("mere", "taxi_files_mere"),
    peer=script("DuckDB", "taxi_files_duckdb", jvm=False),
    metrics=(*COSTS, *WRITTEN),
    prepare=script("mere", "taxi_files_prepare", jvm=False),
    blocks=2,
    by_name=True,
)


def taxi_engine(way: str, title: str, about: str) -> Case:
    return Case(
        name=f"taxi_on_{way}",
        title=f"A month of taxi trips {title}",
        about=f"The example `taxi` with two cores of Spark and the same six tables. {about} The peer is mere with a "
        "lake in a folder and a JVM of its own. Only `mere run` is timed; servers are there before, on this machine.",
        ours=script("mere", "taxi_engines", way),
        peer=script("mere on one machine", "taxi_engines", "local"),
        metrics=("run",),
        targets=(Target("run", 1.2),),
        prepare=TAXI_FILES.prepare,
        blocks=2,
        by_name=True,
    )


TAXI_ENGINES = (
    taxi_engine(
        "s3", "with a lake on S3", "The lake is on an S3 server, its catalog in Postgres, the files are landed."
    ),
    taxi_engine(
        "shared", "on a shared Spark", "As on S3, over Spark Connect, on a shared engine that was just started."
    ),
    taxi_engine("cluster", "on a cluster", "As on S3, on a master with two workers of one core each."),
)

HISTORY = Case(
    name="history",
    title="One month more",
    about="`mere run` after one month of 100,000 trips was added to a history of 24 months, and to one of 2, through "
    "three incremental models with an audit each, cold. Bytes read are those of the files that the windows need; "
    "bytes written are all files that the run left in the warehouse.",
    ours=script("24 months", "history_mere", "24"),
    peer=script("2 months", "history_mere", "2"),
    metrics=(*COSTS, "models", "data_read_bytes", "data_written_bytes", "metadata_written_bytes"),
    targets=tuple(Target(metric, 1.3) for metric in ("wall", "cpu", "data_read_bytes", "data_written_bytes")),
    prepare=script("mere", "history_prepare", "24", "2"),
    blocks=3,
)

MERGE = Case(
    name="merge",
    title="A merge of few keys",
    about="`mere run` of a merge model of 10 million rows after new versions of 0.1 % of them came, spread over all "
    "files, against a build of the whole table (`--full-refresh`), cold. Data written are the data and delete files; "
    "`read` is one query in DuckDB over every column of the table afterwards, whose answer must be the same. So the "
    "ratio of bytes is the share of the table that a merge writes, and that of `read` is what its delete files cost "
    "until they are compacted.",
    ours=script("0.1 % of the keys", "merge_mere"),
    peer=script("the whole table", "merge_mere", "--full-refresh"),
    metrics=(*COSTS, "run", "data_written_bytes", "read", "read_cpu"),
    targets=(Target("data_written_bytes", 0.005), Target("read", 1.3)),
    prepare=script("mere", "merge_prepare"),
    blocks=3,
)

UNIT_TESTS = Case(
    name="unit_tests",
    title="Fifty unit tests",
    about="`mere test` of 50 tests of five models (four in SQL, one in PySpark), against the same tests by hand in "
    "pytest, which make their DataFrames from Arrow and compare what `collect` gives. Both on one session of the "
    "same kind that stays open, after a first round that is not counted. `tests` is a round, from the command to "
    "its last line, taken inside the process.",
    ours=script("mere", "unit_tests_mere"),
    peer=script("pytest by hand", "unit_tests_pytest"),
    metrics=("tests", "tests_cpu"),
    targets=(Target("tests", 1.5),),
)

WARM = Case(
    name="warm",
    title="Ten models on a warm engine",
    about="`mere run` of a seed of 5,000 rows and ten models in SQL with 22 audits, on a branch that is published, on "
    "a warm engine that has done it eleven times, against `dbt build` of the same seed, models and tests with "
    "dbt-duckdb, which writes a DuckDB file: no open tables, branches or history. `whole`: everything is built anew "
    "(`--full-refresh`). `edited`: one model was edited; dbt is told which, mere finds out. Each is a process of its "
    "own, from the command to its end; the median of five.",
    ours=script("mere, warm engine", "shop_mere"),
    peer=peer_script("dbt-duckdb", "dbt-duckdb", "shop_dbt"),
    metrics=("whole", "edited"),
    targets=(Target("whole", 1.0), Target("edited", 0.5)),
    blocks=2,
    by_name=True,
)

_MONTHS = (
    "12 Parquet files of together 10 million rows, one a month, are loaded into bronze, then silver and three gold "
    "tables are built."
)
LOAD = Case(
    name="load",
    title="A year of files",
    about=f"{_MONTHS} mere: a source with a ledger, a snapshot a month, every row with its file, audits, "
    "two commits. By hand: `read.parquet` and `append` for each file, with the same three columns that tell where a "
    "row came from (the most of what they cost is that Parquet is written with them), then the same queries. Both in a "
    "JVM that has done it for three months before; `load` and `build` are taken inside of the process.",
    ours=script("mere", "months_mere"),
    peer=script("PySpark by hand", "months_pyspark"),
    metrics=(*COSTS, "load", "build", *WRITTEN),
    targets=(Target("load", 1.15),),
    prepare=script("DuckDB", "months_prepare", jvm=False),
    blocks=2,
    by_name=True,
)


def load_peer(name: str, side: Side) -> Case:
    return replace(
        LOAD,
        name=f"load_{name}",
        title=f"A year of files: {side.label}",
        about=f"{_MONTHS} {_DUCKDB.replace('the month from a Parquet file', 'the files')} mere is warm as above, and "
        "its figures hold the three months before.",
        peer=side,
        metrics=(*COSTS, *WRITTEN),
        targets=(),
    )


LOAD_PEERS = (
    load_peer("duckdb", script("DuckDB", "months_duckdb", jvm=False)),
    load_peer("dbt_duckdb", peer_script("dbt-duckdb", "dbt-duckdb", "taxi_dbt", "duckdb", "months/*.parquet")),
)

_IN_FOLDER = ("sh", "-c", 'cd "$1" && exec "$2" plan', "sh")
LISTING = Case(
    name="listing",
    title="One new file among ten thousand",
    about="`mere plan` of a source that has loaded 10,000 small files and finds one more, as a new process: what it "
    "lists, reads and compares. The floor is `find` over the folder.",
    ours=Side("mere plan", (*_IN_FOLDER, "{shared}/listing", "{mere}"), Result.NONE, jvm=False),
    peer=Side("find", ("find", "{shared}/listing/data", "-size", "+0"), Result.NONE, jvm=False),
    metrics=COSTS,
    targets=(Target("wall", 5, absolute=True),),
    same_result=False,
    prepare=script("mere", "listing_prepare"),
)

_TRIPS = (
    "10 million taxi trips of 11 columns in a table that mere built, a partition a month, read with psycopg from `mere "
    "serve`, a process of its own that writes its audit log; "
)
_IN_POSTGRES = (
    "The peer is a Postgres on this machine with the same rows, in the order of time, with an index on it, vacuumed, "
    "with 2 GB of shared buffers, asked by the same client."
)


def gateway(name: str, title: str, about: str, query: str, peer: str, *targets: Target, **more: Any) -> Case:
    label = {"duckdb": "DuckDB in process", "postgres": "Postgres", "trino": "Trino"}[peer]
    prepare = (f"--{peer}",) if peer != "duckdb" else ()
    return Case(
        name=f"gateway_{name}",
        title=f"The gateway: {title}",
        about=_TRIPS + about,
        ours=script("mere serve", "gateway_mere", query, jvm=False),
        peer=script(label, f"gateway_{peer}", query, jvm=peer == "trino"),
        targets=targets,
        prepare=script("mere", "gateway_prepare", *prepare),
        by_name=True,
        **more,
    )


_IN_TRINO = (
    "Trino 476, on a heap of 2 GB, reads the same Parquet files and is asked over its REST protocol by a client in "
    "Python; it was warmed by eight queries or 500 look-ups before anything was timed."
)
_GROUP_BY = "revenue and distance by day and payment, 1,344 rows, again and again on one connection. "
_LOOK_UP = ("look_up", "look_up_p99", "clients", "clients_p50", "clients_p99", "errors")
GATEWAYS = (
    gateway(
        "group_by",
        "group-by of all rows",
        _GROUP_BY + "The floor is DuckDB in the client's own process, on the same Parquet files.",
        "group_by",
        "duckdb",
        Target("group_by", 1.3),
        metrics=("group_by",),
    ),
    gateway(
        "group_by_postgres",
        "group-by of all rows, against Postgres",
        _GROUP_BY + _IN_POSTGRES,
        "group_by",
        "postgres",
        Target("group_by", 0.1),
        metrics=("group_by",),
        blocks=2,
    ),
    gateway(
        "fetch",
        "a million rows",
        f"`fetchall()` of 1 million rows by a range of time. {_IN_POSTGRES} The memory is that of the server at its "
        "peak, which includes a COPY of all 10 million.",
        "fetch",
        "postgres",
        Target("fetch", 1.2),
        Target("server_bytes", 400e6, absolute=True),
        metrics=("fetch", "fetch_binary", "server_bytes"),
        blocks=3,
    ),
    gateway(
        "look_up",
        "single trips",
        "the trips of a moment and a zone, 300 one after the other, by parameters; then 20 each by 50 clients at once. "
        "The floor is DuckDB in the client's own process, on the same Parquet files, with 50 threads.",
        "look_up",
        "duckdb",
        Target("look_up", 3),
        Target("clients", 1.1),
        Target("errors", 0, absolute=True),
        metrics=_LOOK_UP,
    ),
    gateway(
        "group_by_trino",
        "group-by of all rows, against Trino",
        _GROUP_BY + _IN_TRINO,
        "group_by",
        "trino",
        metrics=("group_by",),
        blocks=2,
    ),
    gateway(
        "fetch_trino",
        "a million rows, against Trino",
        f"`fetchall()` of 1 million rows by a range of time. {_IN_TRINO}",
        "fetch",
        "trino",
        metrics=("fetch",),
        blocks=2,
    ),
    gateway(
        "look_up_trino",
        "single trips, against Trino",
        "the trips of a moment and a zone, 300 one after the other, by parameters; then 20 each by 50 clients at once. "
        + _IN_TRINO,
        "look_up",
        "trino",
        metrics=_LOOK_UP,
        blocks=2,
    ),
)

SMALL = Case(
    name="gateway_small",
    title="The gateway: small statements",
    about="`SELECT 1`, and one row by its key from a table of 265 rows: each prepared once and asked 8,000 times by "
    "ten clients at once: libpq in one process on the same cores. `mere serve` writes its audit log and looks "
    "for a new commit before each statement. It keeps small answers for those who ask the same again: a row is asked "
    "for 30 times, and once more by statements whose values are all new. The peer is a Postgres on this machine with "
    "the same rows and a primary key. The time of a statement is that of all together, divided by their number: 0.5 ms "
    "are 2,000 a second.",
    ours=script("mere serve", "gateway_mere", "small", jvm=False),
    peer=script("Postgres", "gateway_postgres", "small", jvm=False),
    metrics=(
        "select_1",
        "select_1_p50",
        "select_1_p99",
        "zone",
        "zone_p50",
        "zone_p99",
        "once",
        "once_p50",
        "once_p99",
    ),
    targets=(Target("select_1", 0.0005, absolute=True), Target("zone", 0.001, absolute=True)),
    prepare=script("mere", "gateway_small_prepare", jvm=False),
    blocks=3,
    by_name=True,
)

CASES = (
    *(START_UP, FORK_PUBLISH, MORE_ROWS, MORE_SNAPSHOTS, ON_POSTGRES),
    *(ROW_DIFF, ROW_DIFF_WHOLE, READ_LOG, READ_TABLES, READ_SQL, HELP),
    *(
        NO_PLAN,
        NO_RUN,
        NO_PLAN_1000,
        NO_RUN_1000,
        TAXI,
        *TAXI_PEERS,
        TAXI_FILES,
        *TAXI_ENGINES,
        HISTORY,
        MERGE,
        UNIT_TESTS,
        WARM,
    ),
    *(LOAD, *LOAD_PEERS, LISTING, *GATEWAYS, SMALL, *CATALOGS),
)

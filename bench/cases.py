"""Every figure that mere promises, and what it is compared with."""

from __future__ import annotations

from bench.case import Case, Result, Side, Target

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
    prepare=Side("mere", ("{python}", "-m", "mere.engine.train"), Result.NONE),
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

CASES = (START_UP, FORK_PUBLISH, MORE_ROWS, MORE_SNAPSHOTS, ON_POSTGRES, READ_LOG, READ_TABLES, READ_SQL, HELP)

"""What the catalog over HTTP is compared with."""

from __future__ import annotations

from bench.case import Case, Side, Target

_KINDS = ("load", "list", "commit", "commit_10")
_METRICS = tuple(f"{kind}{clients}_{part}" for kind in _KINDS for clients in ("", "_16") for part in ("p50", "p99"))
_ASKED = (
    "1,000 tables in one schema: one is loaded, all are listed, a property of one is set (which loads it and commits), "
    "the same of ten; by one client, and by 16 at once. All clients are Iceberg's own in one JVM, each with its thread "
    "and its connections; times are theirs. "
)


def _script(label: str, name: str, *arguments: str, jvm: bool = True) -> Side:
    return Side(label, ("{python}", f"{{sides}}/{name}.py", *arguments), jvm=jvm)


CATALOG = Case(
    name="catalog",
    title="The catalog over HTTP, against the database itself",
    about=_ASKED
    + "mere: a branch that `mere serve`, a process of its own, serves over REST, with a line in the log for "
    "each commit; ten tables are one commit. The peer is Iceberg's JdbcCatalog on a SQLite file, in the clients' own "
    "process, without branches or a log; ten tables are ten commits. Both with WAL and `synchronous = FULL`.",
    ours=_script("mere serve", "catalog_rest"),
    peer=_script("JdbcCatalog", "catalog_jdbc"),
    metrics=_METRICS,
    targets=(Target("commit_p50", 1.5), Target("commit_16_p50", 1.5)),
    blocks=2,
    by_name=True,
)

_OF_NESSIE = (
    "Besides, a branch of all tables is made, by the servers' own APIs. Both are asked over Iceberg's REST protocol, "
    "write metadata to an S3 server (S3Proxy) on this machine, and commit ten tables at once. mere keeps its catalog "
    "in a Postgres with `fsync`. "
)


def _nessie(name: str, title: str, store: str, side: str) -> Case:
    kinds = ("load", "load_16", "list", "list_16", "commit", "commit_16", "commit_10", "commit_10_16", "branch")
    return Case(
        name=name,
        title=title,
        about=f"{_ASKED}{_OF_NESSIE}The peer is Nessie 0.108.8 on Temurin 25, {store}",
        ours=_script("mere serve", "catalog_s3", "mere"),
        peer=_script("Nessie", "catalog_s3", side),
        metrics=(*_METRICS, "branch_p50", "branch_p99"),
        targets=tuple(Target(f"{kind}_p50", 1.0) for kind in kinds),
        blocks=2,
        by_name=True,
    )


NESSIE = _nessie(
    "catalog_nessie",
    "The catalog over HTTP, against Nessie",
    "with its commits in such a Postgres, too.",
    "nessie",
)

NESSIE_ROCKSDB = _nessie(
    "catalog_nessie_rocksdb",
    "The catalog over HTTP, against Nessie on RocksDB",
    "with its commits in a RocksDB, its store for one node: files of its own process, where mere asks another one.",
    "nessie_rocksdb",
)

LONG_TABLE = Case(
    name="catalog_long_table",
    title="The catalog over HTTP: a table with 1,000 snapshots",
    about="The metadata of a table with 1,000 snapshots, loaded again and again on one connection, against the same "
    "bytes as a file of a folder, sent by the same server software (Starlette's StaticFiles on uvicorn).",
    ours=_script("mere serve", "long_table", "rest", jvm=False),
    peer=_script("static file", "long_table", "file", jvm=False),
    metrics=("long_p50", "long_p99"),
    targets=(Target("long_p50", 3),),
    by_name=True,
)

TRANSACTION = Case(
    name="catalog_transaction",
    title="The catalog over HTTP: ten tables in one transaction on S3",
    about="A property is set of ten tables in one transaction, again and again on one connection, against the same of "
    "one table. The lake is in a bucket that is 15 ms away: an S3 server (S3Proxy) on this machine, behind a proxy "
    "that keeps each request waiting; its catalog is in a Postgres with `fsync`.",
    ours=_script("ten tables", "transactions", "ten"),
    peer=_script("one table", "transactions", "one"),
    metrics=("p50", "p99"),
    targets=(Target("p50", 3),),
    by_name=True,
)

CATALOGS = (CATALOG, NESSIE, NESSIE_ROCKSDB, LONG_TABLE, TRANSACTION)

"""All checks in order: the quick ones first, the one that starts a JVM last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mere.doctor import catalog, machine, spark, storage, trino, workers
from mere.doctor.context import Subject
from mere.doctor.findings import Check

_BACKUP = "If nothing else helps, put the catalog back from a backup. The tables' files are untouched."
_MACHINE = (
    Check("machine", "python", machine.python),
    Check("machine", "memory", machine.memory),
    Check("machine", "disks", machine.disks),
    Check("machine", "mere's folder", machine.home),
    Check("machine", "java", machine.java),
    Check("machine", "duckdb", machine.duckdb),
)
_PROJECT = (Check("project", "mere.yaml", catalog.project),)
_LAKE = (
    Check("lake", "opens", catalog.lake, needs=("mere.yaml",), remedy=_BACKUP),
    Check("storage", "write", storage.write, needs=("opens",), remedy=storage.RIGHTS),
    Check("storage", "read", storage.read, needs=("write",), remedy=storage.RIGHTS),
    Check("storage", "list", storage.listing, needs=("write",), remedy=storage.RIGHTS),
    Check("storage", "conditional put", storage.conditional_put, needs=("write",), remedy=storage.RIGHTS),
    Check("storage", "clock", storage.clock, needs=("write", "list"), remedy=storage.RIGHTS),
    Check("storage", "delete", storage.delete, needs=("write",), remedy=storage.RIGHTS),
    Check("catalog", "database", catalog.database, needs=("opens",), remedy=_BACKUP),
    Check("catalog", "time", catalog.time, needs=("opens", "database"), remedy=_BACKUP),
    Check("catalog", "round trip", catalog.round_trip, needs=("opens", "database"), remedy=_BACKUP),
    Check("catalog", "guards", catalog.guards, needs=("opens", "database"), remedy=_BACKUP),
    Check("catalog", "refusal", catalog.refusal, needs=("opens", "database"), remedy=_BACKUP),
    Check("tables", "log", catalog.log, needs=("opens", "database"), remedy=_BACKUP),
    Check("tables", "names", catalog.names, needs=("opens", "database"), remedy=_BACKUP),
    Check("tables", "metadata", catalog.metadata, needs=("opens", "database"), remedy=_BACKUP),
    Check("tables", "runs", catalog.runs, needs=("opens", "database"), remedy=_BACKUP),
    Check("tables", "sql", catalog.sql, needs=("opens", "database", "duckdb", "metadata")),
)
_SPARK = (
    Check("spark", "jars", spark.jars),
    Check("spark", "class data", spark.class_data, needs=("java", "jars")),
)
_JOB = Check(
    "spark",
    "job",
    spark.job,
    needs=("java", "jars", "mere's folder", "opens", "write", "database", "round trip"),
    remedy="For more, see Spark's log: the newest file in the folder `logs` of mere's folder, shown above.",
)
_MASTER = Check("spark", "master", workers.master)
_CONNECT = Check("spark", "connect", workers.connect)
_WORKERS = Check("spark", "workers", workers.workers, needs=("opens", "write"))
_LANDING = Check("landing", "landing", workers.landing, needs=("opens", "write"), remedy=storage.RIGHTS)
_TRINO = (
    Check("trino", "answers", trino.answers),
    Check("trino", "catalog", trino.catalog, needs=("answers", "opens")),
)
_MEND = Check("catalog", "mend", catalog.mend, needs=("opens", "database"), remedy=_BACKUP)


def checks(subject: Subject, *, mend: bool = False, with_spark: bool = True) -> tuple[Check, ...]:
    if subject.open_lake is None:
        return _MACHINE + _PROJECT + _SPARK
    lake = list(_LAKE)
    if mend:
        lake.insert([check.name for check in lake].index("guards"), _MEND)
    return (*_MACHINE, *_PROJECT, *lake, *_SPARK, *_of_profile(subject, with_spark=with_spark))


def _of_profile(subject: Subject, *, with_spark: bool) -> Iterator[Check]:
    """What only some profiles have."""
    if subject.names_trino:
        yield from _TRINO
    settings = subject.settings
    way = _CONNECT if settings.remote else _MASTER if settings.master else None
    if way is not None:
        yield way
    if with_spark:
        yield replace(_JOB, needs=(*_JOB.needs, way.name)) if way else _JOB
        if way is not None:
            yield replace(_WORKERS, needs=(*_WORKERS.needs, way.name))
    if subject.landing is not None and (with_spark or not subject.is_elsewhere):
        yield replace(_LANDING, needs=(*_LANDING.needs, way.name)) if way else _LANDING

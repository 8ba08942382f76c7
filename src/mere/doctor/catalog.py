"""The project's file, the catalog of its lake, and what the catalog points to."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice

from mere.config import FILE_NAME
from mere.doctor.context import Subject
from mere.doctor.findings import State, Verdict
from mere.errors import LakeError, MereError
from mere.lake.log.commits import difference
from mere.lake.log.refs import Ref, RefKind
from mere.lake.query.tables import TableSet
from mere.lake.refs.clock import skew
from mere.lake.store.health import PROBE
from mere.lake.upkeep.gc import GRACE, KEEP_RUNS
from mere.lake.upkeep.leavings import Policy, find_leavings
from mere.names import MAIN, TableName
from mere.sql.spelling.standard import quoted
from mere.text.words import counted

MOST_TABLES = 200  # of main are looked at, spread evenly
MEND = "Recreate them: mere doctor --mend"


def project(subject: Subject) -> Verdict:
    found = subject.project
    if found is not None:
        return Verdict(f"{found.path}, profile {found.profile}")
    if subject.open_lake is None:
        return Verdict.skipped(f"there is no {FILE_NAME} here or in a folder above", "Make a project: mere init DIR")
    return Verdict(f"no {FILE_NAME}: the lake was named by itself")


def lake(subject: Subject) -> Verdict:
    found = subject.lake
    refs = found.refs()
    return Verdict(f"{found.location}, refs: {len(refs)}, id {found.store.lake_id[:10]}")


def database(subject: Subject) -> Verdict:
    condition = subject.database.condition()
    if not condition.troubles:
        return Verdict(condition.summary)
    return Verdict(
        "; ".join(trouble.what for trouble in condition.troubles),
        "\n".join(trouble.remedy for trouble in condition.troubles),
        State.FAILED if any(trouble.grave for trouble in condition.troubles) else State.WARN,
    )


def time(subject: Subject) -> Verdict:
    found = skew(subject.lake.store)
    return Verdict.warn(found.message, found.remedy) if found else Verdict("this machine's clock agrees with the lake")


def round_trip(subject: Subject) -> Verdict:
    """A lease is written, read and given back: all of it is committed, and the log knows nothing of it."""
    store, holder, table = subject.lake.store, f"doctor-{secrets.token_hex(4)}", TableName(PROBE, secrets.token_hex(8))
    store.acquire(MAIN, [table], holder, timedelta(seconds=30))
    held = any(lease.holder == holder for lease in store.leases())
    store.release(MAIN, [table], holder)
    if not held or any(lease.holder == holder for lease in store.leases()):
        return Verdict.failed(
            "the next transaction does not see that a lease was taken or given back",
            "Check that the catalog is one database, and not a copy of it that lags behind.",
        )
    return Verdict("a lease was taken, read and given back")


def mend(subject: Subject) -> Verdict:
    mended = subject.database.mend()
    return Verdict(f"recreated: {', '.join(mended)}" if mended else "there was nothing to fix")


def guards(subject: Subject) -> Verdict:
    found = subject.database.guards()
    if found.broken:
        parts = {"missing": found.missing, "altered or switched off": found.altered}
        shown = "; ".join(f"{state}: {', '.join(names)}" for state, names in parts.items() if names)
        return Verdict.failed(f"guards of the catalog are {shown}", MEND)
    if found.unknown:
        return Verdict.warn(
            f"triggers that mere does not know are on its tables: {', '.join(found.unknown)}",
            "Find out who made them; if nobody needs them, drop them: DROP TRIGGER",
        )
    return Verdict(f"all {found.count} are in place, as mere made them")


def refusal(subject: Subject) -> Verdict:
    reaction = subject.database.provoke()
    if not reaction.refused:
        return Verdict.failed("an engine can delete a table's row, and then its files, which other refs need", MEND)
    if not reaction.journaled:
        return Verdict.failed("an engine's write makes no commit in the log", MEND)
    return Verdict("an engine's write becomes a commit, and its drop is refused")


def log(subject: Subject) -> Verdict:
    store = subject.lake.store
    head = store.heads([MAIN])[MAIN]
    changes = difference(store.entries(head.commit), head.entries)
    if changes:
        names = ", ".join(sorted(str(key) for key in islice(changes, 5)))
        return Verdict.failed(
            f"{len(changes)} entries of main differ from its last commit, because they were written past the"
            f" guards: {names}",
            f"Go back to what the log says: mere revert --to {head.commit.short_id}",
        )
    return Verdict("main matches its last commit")


def names(subject: Subject) -> Verdict:
    """On all branches: what an engine made there cannot be published, and main is no exception."""
    lake = subject.lake
    branches = [ref.name for ref in lake.refs(RefKind.BRANCH, RefKind.RUN)]
    found = [(branch, table) for branch, at in lake.at_each(branches).items() for table in at if not table.is_plain]
    if not found:
        return Verdict("every table and view can be named by a query")
    shown = [f"{table} on {branch}" for branch, table in found[:5]]
    drops = [f"mere drop {shlex.quote(str(table))} --on {branch}" for branch, table in found[:5]]
    more = [f"and {len(found) - 5} more"] if len(found) > 5 else []
    return Verdict.warn(
        f"no query, model or engine can name these, and they cannot be published: {', '.join(shown + more)}",
        "Drop them, or give them another name with mere rename:\n" + "\n".join(drops),
    )


def metadata(subject: Subject) -> Verdict:
    tables = subject.lake.at(MAIN)
    chosen = list(tables)[:: max(1, -(-len(tables.tables) // MOST_TABLES))]
    lost = list(islice(_lost(subject, tables, chosen), 5))
    if lost:
        remedies = dict.fromkeys(error.remedy for _, error in lost if error.remedy)
        return Verdict.failed(
            "; ".join(f"{table}: {error.message}" for table, error in lost),
            "\n".join(remedies) or "Put the files back from a backup.",
        )
    return Verdict(f"read {len(chosen)} of {counted(len(tables.tables), 'table or view', 'tables and views')} of main")


def _lost(subject: Subject, tables: TableSet, chosen: list[TableName]) -> Iterator[tuple[TableName, MereError]]:
    for table in chosen:
        try:
            current = tables.metadata(table).current
            if current and current.manifest_list and not subject.lake.storage.exists(current.manifest_list):
                raise LakeError(f"{current.manifest_list} is gone, though the table needs it.")
        except MereError as error:
            yield table, error


def runs(subject: Subject) -> Verdict:
    store = subject.lake.store
    found = find_leavings(store, Policy(store.now(), GRACE, KEEP_RUNS, None))
    if found.runs:
        return Verdict.warn(
            f"{counted(len(found.runs), 'run')} died and left a branch: {_names(found.runs)}", "Clean up: mere gc"
        )
    going_on = f"{len(found.live)} in progress"
    if found.dead:
        return Verdict(f"{going_on}; ended without publishing, and can be resumed: {_names(found.dead)}")
    return Verdict(f"none died; {going_on}")


def _names(refs: Sequence[Ref]) -> str:
    return ", ".join(ref.name for ref in refs[:5]) + (", …" if len(refs) > 5 else "")


def sql(subject: Subject) -> Verdict:
    """The first table of main is enough to go all the way: pointer, metadata, manifests, a data file."""
    tables = subject.lake.at(MAIN)
    first = next((table for table in tables if table.is_plain and not tables.is_view(table)), None)
    name = f"{quoted(first.namespace)}.{quoted(first.name)}" if first else "(SELECT 1)"
    with subject.lake.sql(f"SELECT * FROM {name} LIMIT 1") as result:
        rows = len(list(result.rows()))
    return Verdict(f"read {counted(rows, 'row')} of {first}" if first else "SELECT 1, because main has no table yet")

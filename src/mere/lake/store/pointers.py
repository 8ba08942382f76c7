"""Pointers to metadata files, of all refs and commits at once: which of them are needed, and where they lead."""

from __future__ import annotations

from collections.abc import Mapping

from mere.lake.log.commits import Space
from mere.lake.store.rows import Given, Tx, entries_at


def needed(tx: Tx, without: frozenset[str], expired: frozenset[int]) -> set[str]:
    """Those that a ref needs, or a commit that was not expired."""
    rows_of_refs = tx.rows("SELECT catalog_name, metadata_location FROM iceberg_tables")
    found = {location for name, location in rows_of_refs if name not in without}
    parents: dict[int, int | None] = {}  # of the commits that are kept
    whole: set[int | None] = {None}  # those of them whose entire history is kept
    for seq, parent, gone in tx.rows("SELECT seq, parent, expired FROM mere_commits ORDER BY seq"):
        if not gone and seq not in expired:
            parents[seq] = parent
            if parent in whole:
                whole.add(seq)
    changes = tx.rows("SELECT seq, old, new FROM mere_changes WHERE space = 'relation'")
    found.update(entry for seq, *entries in changes if seq in parents for entry in entries)
    # What stands at a commit stands at the next one too, unless the next one's change names it as the old. So the
    # changes of all kept commits, and all that stands where they end, are all that is needed to read any of them;
    # the change that once set a pointer may belong to a commit that has expired.
    heads = {head for name, head in tx.rows("SELECT name, head FROM mere_refs") if name not in without}
    for tip in parents.keys() - set(parents.values()) - heads - whole:
        found.update(entry.value for key, entry in entries_at(tx, tip).items() if key.space is Space.RELATION)
    return {location for location in found if location is not None}


def move(tx: Tx, moved: Mapping[str, str]) -> None:
    tx.run("CREATE TEMPORARY TABLE mere_moved (old TEXT PRIMARY KEY, new TEXT NOT NULL)")
    tx.run_for(
        "INSERT INTO mere_moved (old, new) SELECT old, new FROM {given}", Given(("old", "new"), list(moved.items()))
    )
    for table, column in (
        ("iceberg_tables", "metadata_location"),
        ("iceberg_tables", "previous_metadata_location"),
        ("iceberg_namespace_properties", "property_value"),
        ("mere_changes", "old"),
        ("mere_changes", "new"),
    ):
        tx.run(
            f"UPDATE {table} SET {column} = (SELECT m.new FROM mere_moved m WHERE m.old = {table}.{column})"
            f" WHERE {column} IN (SELECT old FROM mere_moved)"
        )
    tx.run("DROP TABLE mere_moved")

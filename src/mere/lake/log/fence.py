"""Keeps a run that has lost its tables or its branch from publishing.

A run may be suspended for any length of time between two statements, so nothing that it has asked before counts when
it publishes: it is asked again, in the transaction that does it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from mere.errors import LeaseLost, Unsigned
from mere.lake.log.commits import Entry, Key
from mere.lake.log.runs import shown
from mere.names import TableName


@dataclass(frozen=True)
class Fence:
    """What must hold in the transaction that publishes a run."""

    run: str
    target: str
    signed: Mapping[Key, Entry | None]  # where the tables of its branch stand, by its own hand
    holder: str = ""
    leased: tuple[TableName, ...] = ()  # the tables of the target on which the holder must have a lease

    def strangers(self, standing: Mapping[Key, Entry | None]) -> list[Key]:
        """The tables that stand where the run has not signed them."""
        return sorted(key for key, entry in standing.items() if key not in self.signed or self.signed[key] != entry)

    def unsigned(self, keys: Collection[Key]) -> Unsigned:
        names = ", ".join(map(str, sorted(keys)))
        return Unsigned(
            f"The branch of run {self.run} was changed by somebody else: {names} on it is not what the run has"
            f" built and audited. Nothing was published; {self.target} was left as it was.",
            remedy=f"Undo that and resume: mere run --resume {self.run}",
        )


def lost_lease(holder: str, tables: Collection[TableName]) -> LeaseLost:
    names = ", ".join(map(str, tables))
    return LeaseLost(
        f"{shown(holder)} has lost its lease on {names}: another run may be writing them.",
        remedy="Run it again.",
    )

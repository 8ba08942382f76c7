"""Checks that clocks agree: this machine's, the catalog database's, and the times in the log.

A lake goes by the clock of its database, which on Postgres all machines share, and on SQLite is that of this machine.
The order of commits never depends on it: the log has an order of its own, along which time does not go backwards. What
a clock decides is how old something is, and engines put their machine's time into tables: Iceberg refuses a snapshot
that is older than the one before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from mere.errors import ClockOff
from mere.lake.log.commits import Commit, CommitKind

if TYPE_CHECKING:
    from mere.lake.store.port import Store

TOLERANCE = timedelta(minutes=1)  # Iceberg's own
SET_CLOCK = "Set the clock from the network (NTP), on Linux with: sudo timedatectl set-ntp true"


@dataclass(frozen=True)
class Skew:
    """`by` is how far this machine's clock is ahead of what it was compared with, or behind it if it is negative."""

    by: timedelta
    against: str
    harm: str
    remedy: str = SET_CLOCK

    @property
    def message(self) -> str:
        side = "ahead of" if self.by > timedelta(0) else "behind"
        return f"The clock of this machine is off: it is {length(self.by)} {side} {self.against}. {self.harm}"


def skew(store: Store) -> Skew | None:
    """What is wrong with this machine's clock as far as the lake can tell; None if nothing is."""
    machine, (now, branch, newest) = datetime.now(UTC), store.clocks()
    if store.shares_clock and abs(machine - now) > TOLERANCE:
        return Skew(
            machine - now,
            f"the database's, where it is {now:%Y-%m-%d %H:%M:%SZ}",
            "mere goes by the database's, but engines on this machine write its time into tables.",
        )
    if newest.at - now > TOLERANCE:
        return Skew(
            now - newest.at,
            f"commit {newest.short_id} on {branch}, which was made at {newest.at:%Y-%m-%d %H:%M:%SZ}",
            "Iceberg refuses to write to a table that was last written in the future.",
            SET_CLOCK if newest.kind is CommitKind.ROOT else f"{SET_CLOCK}\n{_undo(newest, branch)}",
        )
    return None


def _undo(commit: Commit, branch: str) -> str:
    return (
        "If the clock is right now, that commit was made while it was ahead. To write to its tables before then, undo"
        f" it and repeat it: mere revert {commit.short_id} --on {branch}"
    )


def require_later(last: datetime, what: str) -> None:
    """Refuse to write to what was last written in the future, as Iceberg's Java library does."""
    ahead = last - datetime.now(UTC)
    if ahead > TOLERANCE:
        raise ClockOff(
            f"The clock of this machine is off: it is {length(ahead)} behind the last write to {what}, at"
            f" {last:%Y-%m-%d %H:%M:%SZ}. Nothing was written.",
            remedy=SET_CLOCK,
        )


def length(time: timedelta) -> str:
    """`1 d 2 h`, `5 min`, `90 s`: two units are enough for people."""
    seconds = round(abs(time.total_seconds()))
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    parts: list[str] = []
    for unit, size in units:
        count, seconds = divmod(seconds, size)
        if count or parts:
            parts.append(f"{count} {unit}")
    return " ".join(part for part in parts[:2] if not part.startswith("0 ")) or "0 s"

"""Who is connected and what they are doing: for pg_stat_activity, and for cancelling by process number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

_SHOWN = 1024  # characters of a query, as in Postgres
_STATES = {b"I": "idle", b"T": "idle in transaction", b"E": "idle in transaction (aborted)"}


@dataclass
class Seat:
    """One connection, which keeps it up to date. `cancel` and `end` may be called by any thread."""

    process: int
    user: str
    database: str
    address: str
    cancel: Callable[[], None] = field(repr=False)
    end: Callable[[], None] = field(repr=False)
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    application: str = ""
    state: str = "idle"
    query: str = ""  # the one that it is at, or was at last
    asked: datetime | None = None  # that query
    changed: datetime | None = None  # the state
    begun: datetime | None = None  # the transaction

    def ask(self, query: str) -> None:
        now = datetime.now(UTC)
        self.query, self.state, self.asked, self.changed = query[:_SHOWN], "active", now, now
        self.begun = self.begun or now

    def rest(self, status: bytes, application: str) -> None:
        """The client may ask again. `status`: of its transaction, as the protocol tells it."""
        self.state, self.application, self.changed = _STATES[status], application, datetime.now(UTC)
        if status == b"I":
            self.begun = None


class Activity:
    """Threads may use it together."""

    def __init__(self) -> None:
        self._seats: dict[int, Seat] = {}

    def enter(self, seat: Seat) -> None:
        self._seats[seat.process] = seat

    def leave(self, seat: Seat) -> None:
        del self._seats[seat.process]

    def of(self, user: str) -> list[Seat]:
        """As they are at the moment. What others do is theirs."""
        return [replace(seat) for seat in list(self._seats.values()) if seat.user == user]

    def signal(self, user: str, process: int | None, end: bool) -> bool | None:
        """Cancel what the connection is at, or end it. False if it is not one of the user's."""
        if process is None:
            return None
        seat = self._seats.get(process)
        if seat is None or seat.user != user:
            return False
        (seat.end if end else seat.cancel)()
        return True

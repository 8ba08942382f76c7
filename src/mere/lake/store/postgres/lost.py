"""What happens when Postgres does not answer: network failures, server restarts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from mere.errors import LakeError, LakeUnreadable, RefExists
from mere.lake.store.port import Moved
from mere.lake.store.postgres.address import GRANT, UNTOUCHED, PostgresAddress, line
from mere.lake.store.wholeness import damaged

if TYPE_CHECKING:
    from mere.lake.store.postgres.address import Connection

T = TypeVar("T")

# In seconds, one after each attempt. Once there was an answer, the address is right and the server may be restarting.
OPENING = (0.1, 0.2, 0.4, 0.8, 1.6, 0.0)
_OPENED = (*OPENING[:-1], 3.2, 6.4, 0.0)
_IN_DOUBT = "The reply to a commit was lost, so it may have happened or not: see mere log and mere branch list."


class Lost(Exception):
    """The connection broke, or the database asks to try again. Never leaves the store."""

    def __init__(self, *, in_doubt: bool = False) -> None:
        super().__init__()
        self.in_doubt = in_doubt  # the reply to a COMMIT was lost


@contextmanager
def lost_connections() -> Iterator[None]:
    import psycopg
    from psycopg import errors

    try:
        yield
    except errors.UniqueViolation as error:
        if error.diag.table_name == "mere_refs":
            raise RefExists("Another process has just made a ref of that name.") from error
        raise Lost from error  # two writers met: the second look decides
    except errors.DiskFull as error:
        raise _no_room(error) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise Lost from error
    except errors.UndefinedTable as error:
        raise damaged("Postgres", line(error)) from error
    except psycopg.Error as error:
        remedy = GRANT if isinstance(error, errors.InsufficientPrivilege) else None
        raise LakeError(f"Postgres refused: {line(error)}. {UNTOUCHED}", remedy=remedy) from error


def _no_room(error: Exception) -> LakeUnreadable:
    return LakeUnreadable(
        f"The disk of the Postgres server is full: {line(error)}. {UNTOUCHED}",
        remedy="Free some space there and try again. Reading still works.",
    )


def send_commit(connection: Connection) -> None:
    """Of all statements this is the one that may have been carried out although its reply was lost."""
    import psycopg

    try:
        connection.execute(b"COMMIT")
    except psycopg.errors.DiskFull as error:
        raise _no_room(error) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise Lost(in_doubt=connection.closed) from error


def patiently(address: PostgresAddress, act: Callable[[], T], pauses: Sequence[float] = ()) -> T:
    """What can be done twice is done again after a lost connection, with growing pauses."""
    return once(address, act, list, pauses)


def once(
    address: PostgresAddress, act: Callable[[], T], happened: Callable[[], list[T]], pauses: Sequence[float] = ()
) -> T:
    """The same for what must not be done twice. A lost reply may belong to something that happened, or that Postgres is
    about to finish: then the next attempt waits for it, and finds its own work in its way. `happened` gives what was
    done, or nothing."""
    doubt = False
    for pause in pauses or _OPENED:
        try:
            return act()
        except Lost as lost:
            last = lost
            doubt = doubt or lost.in_doubt
            time.sleep(pause)
            if doubt and (done := _looked_up(happened)):
                return done[0]
        except (Moved, LakeError):
            if doubt and (done := _looked_up(happened)):
                return done[0]
            raise
    raise address.failure(last.__cause__, _IN_DOUBT if doubt else UNTOUCHED) from last.__cause__


def _looked_up(happened: Callable[[], list[T]]) -> list[T]:
    try:
        return happened()
    except LakeUnreadable as error:
        raise LakeUnreadable(error.message.removesuffix(UNTOUCHED) + _IN_DOUBT, remedy=error.remedy) from error

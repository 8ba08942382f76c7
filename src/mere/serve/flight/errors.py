"""Errors as Flight clients see them: the status follows from the SQLSTATE, which precedes the message."""

from __future__ import annotations

from pyarrow import flight

from mere.serve.protocol.port import PgError

# By the beginning of the SQLSTATE; the first that fits counts. All are Flight's own errors: of others pyarrow would
# send a traceback along.
_STATUS: tuple[tuple[str, type[flight.FlightError]], ...] = (
    ("28P01", flight.FlightUnauthenticatedError),
    ("28", flight.FlightUnauthorizedError),
    ("42501", flight.FlightUnauthorizedError),
    ("57014", flight.FlightTimedOutError),  # what is cancelled, pyarrow's clients take for Ctrl-C
    ("57", flight.FlightUnavailableError),
    ("53300", flight.FlightUnavailableError),
    ("XX", flight.FlightInternalError),
    ("58", flight.FlightInternalError),
    ("", flight.FlightServerError),
)


def flight_error(error: PgError) -> flight.FlightError:
    kind = next(kind for start, kind in _STATUS if error.sqlstate.startswith(start))
    more = [each for each in (error.detail, error.hint) if each]
    return kind(". ".join([f"{error.sqlstate}: {error.message}", *more]))

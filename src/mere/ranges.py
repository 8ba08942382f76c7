"""What numbers and ages an option takes, for callers from Python as for the command line."""

from __future__ import annotations

from datetime import timedelta

from mere.errors import UsageError
from mere.names import parse_age

Age = str | timedelta  # 90s, 30m, 24h, 7d, 2w


def at_least(least: int, **options: object) -> None:
    """UsageError for an option that is not a whole number, or less than this; None is one that was not given."""
    for name, given in options.items():
        if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < least):
            raise UsageError(f"{name} is {given!r}.", remedy=f"Give a whole number of {least} or more.")


def age(given: Age) -> timedelta:
    found = parse_age(given) if isinstance(given, str) else given
    if not isinstance(found, timedelta) or found < timedelta(0):
        raise UsageError(f"{given!r} is not an age.", remedy="Write for example 90s, 30m, 24h, 7d or 2w.")
    return found

"""Checks and their findings. A check that fails stops neither the others nor the program."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from mere.doctor.context import Subject
from mere.errors import MereError

_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]*@")


class State(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Verdict:
    """What a check saw. `remedy` says what to type, or to do."""

    what: str
    remedy: str | None = None
    state: State = State.OK

    @classmethod
    def warn(cls, what: str, remedy: str) -> Verdict:
        return cls(what, remedy, State.WARN)

    @classmethod
    def failed(cls, what: str, remedy: str | None) -> Verdict:
        return cls(what, remedy, State.FAILED)

    @classmethod
    def skipped(cls, why: str, remedy: str | None = None) -> Verdict:
        return cls(why, remedy, State.SKIPPED)


@dataclass(frozen=True)
class Check:
    """`needs`: the names of earlier checks without which this one could only fail for their reasons.

    `remedy` is for an error that has none of its own.
    """

    part: str
    name: str
    look: Callable[[Subject], Verdict]
    needs: tuple[str, ...] = ()
    remedy: str | None = None


@dataclass(frozen=True)
class Finding:
    part: str
    check: str
    state: State
    what: str
    remedy: str | None
    seconds: float


def examine(checks: Iterable[Check], subject: Subject) -> Iterator[Finding]:
    """Run the checks one by one; each finding comes as soon as it is made."""
    out: set[str] = set()  # what later checks cannot build on
    for check in checks:
        begun = time.monotonic()
        missing = [name for name in check.needs if name in out]
        verdict = Verdict.skipped(f"needs: {', '.join(missing)}") if missing else _verdict(check, subject)
        if verdict.state in (State.FAILED, State.SKIPPED):
            out.add(check.name)
        seconds = round(time.monotonic() - begun, 3)
        yield Finding(check.part, check.name, verdict.state, verdict.what, verdict.remedy, seconds)


def _verdict(check: Check, subject: Subject) -> Verdict:
    try:
        return check.look(subject)
    except MereError as error:
        return Verdict.failed(error.message, error.remedy or check.remedy)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return Verdict.failed(f"{place}{error.strerror or error}", "Check the permissions and the disk of that place.")
    except Exception as error:  # noqa: BLE001 - whatever is broken, the other checks are wanted all the more
        text = _CREDENTIALS.sub("", f"{type(error).__name__}: {error}")
        return Verdict.failed(text, "This check itself failed, which is a bug in mere: please report it.")

"""The storage of the lake's files: the five operations that a lake needs, each tried for real beside the tables."""

from __future__ import annotations

import posixpath
from datetime import UTC, datetime

from mere.doctor.context import Subject, clear
from mere.doctor.findings import Verdict
from mere.errors import LakeError

CONTENT = b"mere doctor was here"
SKEW_SECONDS = 60

RIGHTS = "Check that the warehouse is there, that you may read, write, list and delete in it, and that it has space."
_ELSEWHERE = "Keep the lake on another storage: this one would lose or mix up tables."


def write(subject: Subject) -> Verdict:
    subject.lake.storage.write_new(subject.probe, CONTENT)
    return Verdict(f"a file below {subject.lake.warehouse}")


def read(subject: Subject) -> Verdict:
    found = subject.lake.storage.read(subject.probe)
    if found != CONTENT:
        return Verdict.failed(f"{len(CONTENT)} bytes were written, and {len(found)} others read back", _ELSEWHERE)
    return Verdict("what was written")


def listing(subject: Subject) -> Verdict:
    found = [file.size for file in subject.lake.storage.files(posixpath.dirname(subject.probe))]
    if found != [len(CONTENT)]:
        return Verdict.failed(
            f"a folder with one file of {len(CONTENT)} bytes was listed as {len(found)} files: {found[:3]}", _ELSEWHERE
        )
    return Verdict("the folder has that file and no other")


def conditional_put(subject: Subject) -> Verdict:
    """Two writers may come to one name; whoever is second must hear of it, and change nothing."""
    try:
        subject.lake.storage.write_new(subject.probe, b"another")
    except LakeError:
        if subject.lake.storage.read(subject.probe) != CONTENT:
            return Verdict.failed("a second write to a name was refused, but changed the file", _ELSEWHERE)
        return Verdict("a second write to the same name is refused")
    return Verdict.failed("a second write to the same name replaced the first", _ELSEWHERE)


def clock(subject: Subject) -> Verdict:
    (file,) = subject.lake.storage.files(posixpath.dirname(subject.probe))
    skew = abs((datetime.now(UTC) - file.modified_at).total_seconds())
    if skew > SKEW_SECONDS:
        return Verdict.warn(
            f"the clocks of the storage and of this machine are {skew:.0f} s apart: mere gc goes by the age of files",
            "Synchronize both clocks (NTP); until then, run mere gc only with a longer --grace.",
        )
    return Verdict("the storage's clock is right")


def delete(subject: Subject) -> Verdict:
    clear(subject.lake.storage, posixpath.dirname(subject.probe))
    if subject.lake.storage.exists(subject.probe):
        return Verdict.failed("a file that was deleted is still there", RIGHTS)
    return Verdict("the file is gone")

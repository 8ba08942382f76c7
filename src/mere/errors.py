"""Every error that mere raises on purpose.

MereError
├── UsageError              the request itself is wrong (the CLI exits with 2)
│   └── InvalidName         a ref or table name breaks the rule
├── ConfigError             mere.yaml, the environment, or one place in a project's file
│   └── ProjectError        all that is wrong in a project's files
├── LakeError
│   ├── LakeNotFound        no lake there
│   │   └── BucketMissing   nor the bucket in which it would be
│   ├── LakeUnreadable      corrupt, locked, full or read-only
│   │   └── CatalogLost     the catalog of a lake is damaged, or gone while the files of its tables are there
│   ├── LakeTooNew          written by a newer mere
│   ├── LakeMoved           the folder was moved or copied
│   ├── RefNotFound
│   ├── RunNotFound
│   ├── RefExists
│   ├── ReadOnlyRef         a write to a tag or an alias
│   ├── TableNotFound
│   │   └── ViewNotFound
│   ├── TableExists         a table or view has that name already
│   ├── NamespaceNotFound
│   ├── NamespaceExists
│   ├── NamespaceNotEmpty   a namespace with tables cannot be dropped
│   ├── MetadataMissing     a pointer leads to a file that is not there
│   ├── StorageDenied       S3 refuses the keys, or they may not do this
│   ├── StorageUnreachable  S3 does not answer, or only with failures, however often it is asked
│   ├── Unguarded           a table or view that must not be published as it is
│   ├── LakeConflict        the target moved meanwhile
│   ├── LeaseHeld           another run is writing these tables
│   │   └── LeaseLost       and has taken them from this one
│   └── ClockOff            the clock of this machine is behind what it would write to
├── EngineError
│   ├── JavaUnfit           no Java, or not one that Spark runs on
│   ├── JarsUnavailable     a jar cannot be fetched or is not the pinned one
│   └── SparkFailed         Spark refused or failed a query
│       └── SparkLost       what ran Spark has ended, or does not answer
├── QueryError              `mere sql` could not run a query
├── SourceError             outside data cannot be listed, fetched or read
├── PlanError               what was asked for cannot be planned
├── CheckFailed             the models of a run have errors that are certain without Spark
└── RunFailed               a run ended without publishing

A message says what happened and what was left untouched; `remedy` says what to type next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


class MereError(Exception):
    """The base of all errors that are not bugs: shown without a traceback."""

    exit_code = 1
    run: Any = None  # the record of the run that ended by it (`mere.lake.log.runs.Run`), if it had begun

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in a notebook: the line of the caller that led here, and what the error says."""
        from itertools import takewhile
        from pathlib import Path
        from traceback import extract_tb

        package = str(Path(__file__).parent)
        outside = takewhile(lambda frame: not frame.filename.startswith(package), extract_tb(self.__traceback__))
        lines = [frame.line for frame in outside if frame.line]
        return [*(f"----> {line}" for line in lines[-1:]), f"{type(self).__name__}: {self}"]

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


class UsageError(MereError):
    exit_code = 2


class InvalidName(UsageError):
    pass


class ConfigError(MereError):
    """`problem` is the message without the place, which is `file`, `line` and `column` where they are known."""

    def __init__(
        self,
        message: str,
        *,
        remedy: str | None = None,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        place = ":".join(str(part) for part in (file, line, column) if part is not None)
        super().__init__(f"{place}: {message}" if place else message, remedy=remedy)
        self.problem = message
        self.file = file
        self.line = line
        self.column = column


class ProjectError(ConfigError):
    """Holds every problem, in the order of files and lines."""

    def __init__(self, problems: Iterable[ConfigError]) -> None:
        places = {(each.file or "", each.line or 0, each.column or 0, each.problem): each for each in problems}
        self.problems = tuple(places[place] for place in sorted(places))
        one = len(self.problems) == 1
        lines = [f"{len(self.problems)} problem{'' if one else 's'} in the project"]
        lines += [f"  {str(problem).replace(chr(10), chr(10) + '    ')}" for problem in self.problems]
        super().__init__("\n".join(lines))


class LakeError(MereError):
    pass


class LakeNotFound(LakeError):
    pass


class BucketMissing(LakeNotFound):
    pass


class LakeUnreadable(LakeError):
    pass


class CatalogLost(LakeUnreadable):
    pass


class LakeTooNew(LakeError):
    pass


class LakeMoved(LakeError):
    pass


class RefNotFound(LakeError):
    pass


class RunNotFound(LakeError):
    pass


class RefExists(LakeError):
    pass


class ReadOnlyRef(LakeError):
    pass


class TableNotFound(LakeError):
    pass


class ViewNotFound(TableNotFound):
    pass


class TableExists(LakeError):
    pass


class NamespaceNotFound(LakeError):
    pass


class NamespaceExists(LakeError):
    pass


class NamespaceNotEmpty(LakeError):
    pass


class MetadataMissing(LakeError):
    pass


class StorageDenied(LakeError):
    pass


class StorageUnreachable(LakeError):
    pass


class Unguarded(LakeError):
    pass


class LakeConflict(LakeError):
    """`conflicts` names each table with the commit and author on both sides (`mere.lake.refs.publish.Conflict`)."""

    def __init__(self, message: str, *, remedy: str | None = None, conflicts: Sequence[Any] = ()) -> None:
        super().__init__(message, remedy=remedy)
        self.conflicts = tuple(conflicts)


class LeaseHeld(LakeError):
    pass


class LeaseLost(LeaseHeld):
    pass


class Unsigned(LakeError):
    """The branch of a run holds what the run has not signed."""


class ClockOff(LakeError):
    pass


class EngineError(MereError):
    pass


class JavaUnfit(EngineError):
    pass


class JarsUnavailable(EngineError):
    pass


class SparkFailed(EngineError):
    """`problem` is the message without the place in the SQL, which is `line` and `column` where they are known."""

    def __init__(
        self, problem: str, *, remedy: str | None = None, line: int | None = None, column: int | None = None
    ) -> None:
        super().__init__(problem if line is None else f"{problem} (line {line}, column {column})", remedy=remedy)
        self.problem = problem
        self.line = line
        self.column = column


class SparkLost(SparkFailed):
    pass


class QueryError(MereError):
    pass


class SourceError(MereError):
    pass


class PlanError(MereError):
    pass


class CheckFailed(MereError):
    pass


class RunFailed(MereError):
    pass


class RunLost(RunFailed):
    """Somebody else has resumed the run, or ended it."""

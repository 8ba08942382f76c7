"""Every error that mere raises on purpose.

MereError
├── UsageError              the request itself is wrong (the CLI exits with 2)
│   └── InvalidName         a ref or table name breaks the rule
├── ConfigError             mere.yaml or the environment
├── LakeError
│   ├── LakeNotFound        no lake there
│   ├── LakeUnreadable      corrupt, locked, full or read-only
│   ├── LakeTooNew          written by a newer mere
│   ├── LakeMoved           the folder was moved or copied
│   ├── RefNotFound
│   ├── RefExists
│   ├── ReadOnlyRef         a write to a tag or an alias
│   ├── TableNotFound
│   ├── MetadataMissing     a pointer leads to a file that is not there
│   ├── Unguarded           a table or view that must not be published as it is
│   ├── LakeConflict        the target moved meanwhile
│   └── LeaseHeld           another run is writing these tables
├── EngineError
│   ├── JavaUnfit           no Java, or not one that Spark runs on
│   ├── JarsUnavailable     a jar cannot be fetched or is not the pinned one
│   └── SparkFailed         Spark refused or failed a query
└── QueryError              `mere sql` could not run a query

A message says what happened and what was left untouched; `remedy` says what to type next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class MereError(Exception):
    """The base of all errors that are not bugs: shown without a traceback."""

    exit_code = 1

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


class UsageError(MereError):
    exit_code = 2


class InvalidName(UsageError):
    pass


class ConfigError(MereError):
    pass


class LakeError(MereError):
    pass


class LakeNotFound(LakeError):
    pass


class LakeUnreadable(LakeError):
    pass


class LakeTooNew(LakeError):
    pass


class LakeMoved(LakeError):
    pass


class RefNotFound(LakeError):
    pass


class RefExists(LakeError):
    pass


class ReadOnlyRef(LakeError):
    pass


class TableNotFound(LakeError):
    pass


class MetadataMissing(LakeError):
    pass


class Unguarded(LakeError):
    pass


class LakeConflict(LakeError):
    """`conflicts` names each table with the commit and author on both sides (`mere.lake.publish.Conflict`)."""

    def __init__(self, message: str, *, remedy: str | None = None, conflicts: Sequence[Any] = ()) -> None:
        super().__init__(message, remedy=remedy)
        self.conflicts = tuple(conflicts)


class LeaseHeld(LakeError):
    pass


class EngineError(MereError):
    pass


class JavaUnfit(EngineError):
    pass


class JarsUnavailable(EngineError):
    pass


class SparkFailed(EngineError):
    pass


class QueryError(MereError):
    pass

"""What a user writes, as data: a model is a table or view with the code that makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from mere.audits.audit import Audit
from mere.names import TableName
from mere.windows import Grain


class Kind(StrEnum):
    SEED = "seed"  # a CSV file
    FULL = "full"  # the whole table at every build
    INCREMENTAL = "incremental"  # by time: whole windows are overwritten
    APPEND = "append"  # the rows that were added to one input since the last build
    VIEW = "view"

    @property
    def keeps_rows(self) -> bool:
        """Whether a build may leave rows of earlier builds: only then does new code for what is new mean anything."""
        return self in (Kind.INCREMENTAL, Kind.APPEND)


class OnChange(StrEnum):
    """What a change of an input without a time column means for windows that are already built."""

    REBUILD = "rebuild"
    IGNORE = "ignore"


@dataclass(frozen=True)
class Input:
    """A table that a model reads."""

    table: TableName
    line: int
    time: str | None = None  # the column by which an incremental model reads it in windows; None: it is read whole
    on_change: OnChange | None = None  # of an input that is read whole
    new_rows: bool = False  # an append model takes only the rows added to it


@dataclass(frozen=True)
class Time:
    """How an incremental model is cut into windows."""

    column: str
    grain: Grain
    start: datetime | None = None  # the first window; None: where the data begins
    unfinished: bool = True  # whether the window in which we live is built
    batch: int = 366  # at most so many windows in one write, after which a run can be resumed


@dataclass(frozen=True)
class Sql:
    """The query with macros expanded. `:start`, `:end` and `:now` are bound when it runs."""

    text: str
    line: int  # of the file, where the query starts


@dataclass(frozen=True)
class Python:
    """A function of DataFrames. `code` stands for it and every project module that it imports."""

    function: str
    line: int
    parameters: tuple[tuple[str, TableName], ...]  # in order: which parameter gets which table
    code: str
    takes_now: bool = False  # it has a parameter `now`
    takes_spark: bool = False  # it has a parameter `spark`


@dataclass(frozen=True)
class Csv:
    """A seed. `code` stands for the file's content and the settings by which it is read."""

    path: str  # relative to the project's folder
    code: str
    types: Mapping[str, str] = field(default_factory=dict)  # declared, in Spark's words; the others are inferred
    delimiter: str = ","
    line: int = 1


@dataclass(frozen=True)
class Model:
    name: TableName
    kind: Kind
    file: str  # relative to the project's folder, for messages
    body: Sql | Python | Csv
    inputs: tuple[Input, ...] = ()
    time: Time | None = None
    now: Grain | None = None  # the precision of `:now`, which it must declare if it uses it
    description: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)  # their descriptions
    tags: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()  # `city`, `day(order_date)`, `bucket(16, id)`
    sort_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    audits: tuple[Audit, ...] = ()
    off: Mapping[str, str] = field(default_factory=dict)  # rules of `check` that do not hold here, with the reason

    @property
    def code(self) -> str:
        """What is compared to know whether the code changed."""
        return self.body.text if isinstance(self.body, Sql) else self.body.code

    def __str__(self) -> str:
        return str(self.name)

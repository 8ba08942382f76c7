"""What a user writes, as data: a model is a table or view with the code that makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from mere.audits.audit import Audit
from mere.names import TableName
from mere.project.kinds import Kind
from mere.sources.source import Source
from mere.windows import FIRST, LAST, Grain, Span, Spans


class OnChange(StrEnum):
    """What a change of an input without a time column means for windows that are already built."""

    REBUILD = "rebuild"
    IGNORE = "ignore"


class NullTimes(StrEnum):
    """What becomes of the rows of an input that have no time."""

    REFUSE = "refuse"  # they go to quarantine, if the model has one; otherwise the run fails
    DROP = "drop"


@dataclass(frozen=True)
class Input:
    """A table that a model reads."""

    table: TableName
    line: int
    time: str | None = None  # the column by which an incremental model reads it in windows; None: it is read whole
    on_change: OnChange | None = None  # of an input that is read whole
    new_rows: bool = False  # an append model takes only the rows added to it
    # Of a merge or scd2 model: columns of its key, and the expression over this input's own columns that gives each.
    key: tuple[tuple[str, str], ...] = ()
    rowwise: bool = False  # each of its rows makes rows of the model by itself, whatever other rows it has
    changes: bool = False  # a Python model is given the rows that came and went, with the column `_change`
    updates_by: tuple[str, ...] = ()  # of such an input: the key of the model that makes it, if that has one
    lookup: bool = False  # not read by the query, but by a rule that quarantines


@dataclass(frozen=True)
class Time:
    """How an incremental model is cut into windows."""

    column: str
    grain: Grain
    start: datetime | None = None  # the first window; None: where the data begins
    unfinished: bool = True  # whether the window in which we live is built
    batch: int = 366  # at most so many windows in one write, after which a run can be resumed
    context: timedelta = timedelta()  # how far before its window a row looks at others
    nulls: NullTimes = NullTimes.REFUSE

    def from_start(self, spans: Spans) -> Spans:
        """Of these windows, those that the model has at all."""
        return spans - Spans((Span(FIRST, self.grain.floor(self.start)),)) if self.start else spans

    def touched_by(self, spans: Spans) -> Spans:
        """The windows whose rows may look at rows of these times."""
        later = (Span(span.start, span.end + min(self.context, LAST - span.end)) for span in spans)
        return Spans.of(later).widened(self.grain)

    def read_for(self, spans: Spans) -> Spans:
        """The times at which the rows of these windows may look."""
        return Spans.of(self.before(span) for span in spans)

    def before(self, span: Span) -> Span:
        return Span(span.start - min(self.context, span.start - FIRST), span.end)


@dataclass(frozen=True)
class Promise:
    """What a contract says of a column."""

    type: str  # in Spark's words
    nullable: bool = True


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
    body: Sql | Python | Csv | Source
    inputs: tuple[Input, ...] = ()
    time: Time | None = None
    now: Grain | None = None  # the precision of `:now`, which it must declare if it uses it
    description: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)  # their descriptions
    was: Mapping[str, str] = field(default_factory=dict)  # the name that a column had before, by its name
    contract: Mapping[str, Promise] = field(default_factory=dict)  # all of its columns, if it has one
    owner: str | None = None  # who answers for it
    tags: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    latest_by: str | None = None  # of a merge model's rows of one key, the one with the greatest value is taken
    updated_at: str | None = None  # of an scd2 model: the column that says from when a row holds
    dump: str | None = None  # of an scd2 model: the column that says in which full dump a row was
    compare: tuple[str, ...] = ()  # in which columns versions of an scd2 model differ; none: all but the key
    partition_by: tuple[str, ...] = ()  # `city`, `day(order_date)`, `bucket(16, id)`
    sort_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    audits: tuple[Audit, ...] = ()
    off: Mapping[str, str] = field(default_factory=dict)  # rules of `check` that do not hold here, with the reason

    @property
    def code(self) -> str:
        """What is compared to know whether the code changed."""
        return self.body.text if isinstance(self.body, Sql) else self.body.code

    def __repr__(self) -> str:
        return f"<Model {self.name}: {self.kind}, {self.file}>"

    @property
    def quarantines(self) -> bool:
        """Whether rows of its query may go to its quarantine."""
        return any(audit.quarantine for audit in self.audits)

    @property
    def writes(self) -> tuple[TableName, ...]:
        """The tables that a build of it makes or changes."""
        if isinstance(self.body, Source):
            return self.name, *self.name.companions
        return (self.name, self.name.quarantine) if self.quarantines else (self.name,)

    @property
    def row_key(self) -> tuple[str, ...]:
        """The columns that make a row of the table unique: of a history, a row is a version of its key."""
        return (*self.key, *self.kind.rules.adds_to_key) if self.key else ()

    @property
    def added_columns(self) -> tuple[str, ...]:
        """That the table has besides those of the query."""
        return self.kind.rules.adds

    def __str__(self) -> str:
        return str(self.name)

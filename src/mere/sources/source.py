"""What a user declares about a source, as data. A source is a model whose rows come from outside the lake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from mere.config import S3Settings
from mere.windows import Span

# Names that Iceberg keeps for columns of its own: it reads no table that has one of them.
RESERVED = frozenset(
    {
        *("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"),
        *("_change_type", "_change_ordinal", "_commit_snapshot_id"),
    }
)


class Format(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"  # a record a line
    JSON = "json"  # a file is one document: a record, or a list of them
    PARQUET = "parquet"

    @property
    def is_text(self) -> bool:
        return self is not Format.PARQUET


class OnChange(StrEnum):
    """What becomes of a file that was loaded and is not what it was."""

    REPLACE = "replace"  # its rows
    APPEND = "append"  # its rows to those that it had
    FAIL = "fail"


class OnNewColumn(StrEnum):
    """What becomes of a column that neither the declaration nor the table has."""

    ADD = "add"
    IGNORE = "ignore"
    FAIL = "fail"


class Snapshots(StrEnum):
    """How the files of a load come into the table."""

    BATCH = "batch"  # many at once
    EACH = "each"  # those of one window at once


@dataclass(frozen=True)
class Declared:
    """What is said of a column."""

    type: str | None = None  # in Spark's words; None: text, or what the file itself says
    source: str | None = None  # its name in the data, if it is not the column's own
    format: str | None = None  # how a date or time is written, in Spark's letters
    optional: bool = False  # data without it is no error: it is NULL then


@dataclass(frozen=True)
class Text:
    """How the lines of a text file are read."""

    delimiter: str = ","
    quote: str = '"'
    escape: str = '"'
    header: bool = True
    encoding: str = "utf-8"
    null: str = ""  # what stands for no value
    multiline: bool = False  # a quoted value may go over several lines


@dataclass(frozen=True)
class Files:
    """`location` is a folder with a pattern: `data/trips_{year}-{month}.parquet`, `s3://bucket/bars/*.csv.gz`,
    `https://host/trips_{year}-{month}.parquet`."""

    location: str
    format: Format
    text: Text = field(default_factory=Text)
    on_change: OnChange = OnChange.REPLACE
    batch: int = 1000  # at most so many files in one snapshot
    skip_empty: bool = False  # a file without a byte is passed over, where it would be an error
    s3: S3Settings | None = None  # of a bucket; None: as the environment says
    start: datetime | None = None  # of web addresses with a time in them, which nobody can list: the first
    snapshots: Snapshots = Snapshots.BATCH


@dataclass(frozen=True)
class Paging:
    """How the next page is asked for. Exactly one of `page`, `offset`, `cursor`, `link` is set, or none: one page."""

    page: str | None = None  # a parameter that counts pages
    offset: str | None = None  # a parameter that counts records
    cursor: str | None = None  # a parameter that gets what the last answer has at `next`
    link: bool = False  # the header Link with rel="next"
    next: str | None = None  # a path in the answer
    first: int = 1  # the first page
    limit: str | None = None  # the parameter with the size of a page
    size: int = 100


@dataclass(frozen=True)
class Rest:
    url: str = field(repr=False)  # its query may hold a token
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # they hold tokens
    params: Mapping[str, str] = field(default_factory=dict, repr=False)
    records: str = ""  # the path to the list of records in an answer; empty: the answer itself
    paging: Paging = field(default_factory=Paging)
    cursor: str | None = None  # a field of the records that only grows
    since: str | None = None  # the parameter by which records from a value of it on are asked for
    overlap: timedelta = timedelta()  # by how much earlier they are asked for, if it is a time
    rate: float | None = None  # at most so many requests a second
    retries: int = 5
    timeout: timedelta = timedelta(seconds=30)
    largest: int = 100_000_000  # bytes of an answer, unpacked
    variables: Mapping[str, str] = field(default_factory=dict)  # of the environment, by the header or parameter


@dataclass(frozen=True)
class Database:
    url: str = field(repr=False)  # postgresql://…, or jdbc:…; it may hold a password
    table: str | None = None
    query: str | None = None  # instead of a table
    cursor: str | None = None  # a column that only grows
    overlap: timedelta | int = 0  # how far below the last value rows may still come
    partition_column: str | None = None  # by which it is read in parts, side by side
    partitions: int = 1


@dataclass(frozen=True)
class Function:
    """A function of the project that returns a DataFrame."""

    function: str
    cursor: str | None = None  # a column that only grows: the function gets its last value as `since`
    takes: frozenset[str] = frozenset()  # of `spark`, `since` and `now`


Feed = Files | Rest | Database | Function


@dataclass(frozen=True)
class Trace:
    """The columns by which a row can be traced; None: there is no such column."""

    file: str | None = "_source_file"  # Iceberg keeps `_file` for itself, and reads no table that has it
    loaded_at: str | None = "_loaded_at"
    run: str | None = "_run"
    raw: str | None = None  # the record as it came

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in (self.file, self.loaded_at, self.run, self.raw) if name)


@dataclass(frozen=True)
class Source:
    """The body of a model of kind `source`. `code` stands for how rows are made of the data, not for where it is."""

    feed: Feed
    code: str
    line: int = 1
    columns: Mapping[str, Declared] = field(default_factory=dict)
    on_new_column: OnNewColumn = OnNewColumn.ADD
    keep_names: bool = False  # columns are called as in the data, not by the rule of `column_name`
    path_columns: bool = True  # the fields of the pattern become columns
    trace: Trace = field(default_factory=Trace)
    every: timedelta | None = None  # it is not asked again before
    # What `code` is a hash of, by setting and without secrets.
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Portion:
    """What is loaded as a whole or not at all: a file, or what a database or an API has to give now."""

    name: str  # of a file: its path below the folder of the source
    location: str  # where it is; without secrets
    version: str  # another one means that it changed: an ETag, or size and time
    size: int = 0
    modified: datetime | None = None
    values: Mapping[str, str] = field(default_factory=dict)  # of the fields of the pattern
    span: Span | None = None  # the window that the pattern gives
    since: str | None = None  # the value of the cursor from which rows are read; None: from the first
    until: str | None = None  # up to which, this one included
    landed: str | None = None  # where it is kept, if it is gone from its place
    checksum: str | None = None  # of one that is kept


@dataclass(frozen=True)
class Loaded:
    """A row of the ledger `<table>__loads`: a portion that is in the table."""

    portion: str
    location: str
    version: str
    size: int
    modified: datetime | None
    checksum: str | None  # of a file that has no ETag
    rows: int
    bad: int
    span: Span | None
    until: str | None
    load: str  # portions that came in one snapshot have the same
    loaded_at: datetime
    run: str
    columns: str = ""  # that it had, as JSON: names and types

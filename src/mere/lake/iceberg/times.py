"""The windows that a data file has rows in, found by reading only its time column.

A file whose bounds are a year apart may hold two days of that year. Its Parquet footer often tells, row group by row
group; where it does not, the column is read, and no other.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from mere.errors import LakeError
from mere.lake.iceberg.deletes import column_index
from mere.lake.iceberg.timeline import File, TimeColumn
from mere.lake.storage.port import Storage
from mere.windows import Grain, Span, Spans

if TYPE_CHECKING:
    import pyarrow.parquet as pq

LIMIT = 64_000_000  # bytes that are read in this way to answer one question


class FileTimes:
    def __init__(self, column: TimeColumn, grain: Grain, storage: Storage, limit: int = LIMIT) -> None:
        self._column = column
        self._grain = grain
        self._storage = storage
        self._left = limit
        self._known: dict[str, Spans | None] = {}

    def narrowed(self, file: File) -> File:
        """The same file with the windows that it really has rows in, if that can be told and makes a difference."""
        if self._is_exact(file.times):
            return file
        if file.path not in self._known:
            self._known[file.path] = self._read(file)
        found = self._known[file.path]
        return file if found is None else replace(file, times=found)

    def _is_exact(self, times: Spans | None) -> bool:
        """The first and the last instant are in the file, so where there are two windows it has rows in both."""
        if times is None:
            return False
        return all(len(list(islice(span.windows(self._grain), 3))) < 3 for span in times)

    def _read(self, file: File) -> Spans | None:
        import pyarrow as pa

        if file.format != "PARQUET":
            return None
        try:
            return Spans.of(self._windows(self._open(file)))
        except (LakeError, OSError, pa.ArrowException, ValueError, OverflowError):
            return None  # swept, not readable or not as expected: then its whole span counts

    def _open(self, file: File) -> pq.ParquetFile:
        import pyarrow.parquet as pq

        return pq.ParquetFile(_Ranges(file, self._storage))

    def _may_take(self, size: int) -> bool:
        if size > self._left:
            return False
        self._left -= size
        return True

    def _windows(self, source: pq.ParquetFile) -> Iterator[Span]:
        schema = source.schema_arrow
        name = schema.field(column_index(schema, self._column.id, self._column.name)).name
        leaf = [source.schema.column(each).path for each in range(len(source.schema))].index(name)
        for number in range(source.metadata.num_row_groups):
            chunk = source.metadata.row_group(number).column(leaf)
            if (found := self._by_statistics(chunk.statistics)) is not None:
                yield from found
            elif self._may_take(chunk.total_compressed_size):
                yield from self._by_values(source.read_row_group(number, columns=[name]).column(0))
            else:
                raise ValueError("too much to read")

    def _by_statistics(self, statistics: Any) -> list[Span] | None:
        if statistics is None or not statistics.has_min_max:
            return None
        try:
            first, last = _utc(statistics.min), _utc(statistics.max)
        except ValueError:
            return None  # nanoseconds
        times = Spans.of([Span(first, self._grain.next(self._grain.floor(last)))])
        return list(times) if self._is_exact(times) else None

    def _by_values(self, values: Any) -> Iterator[Span]:
        import pyarrow as pa
        import pyarrow.compute as pc

        # Nanoseconds, which Python does not have, are gone when the values have been cut to whole hours or days.
        naive = values.cast(pa.timestamp(values.type.unit if pa.types.is_timestamp(values.type) else "us"))
        unit = "hour" if self._grain is Grain.HOUR else "day"
        for at in pc.unique(pc.floor_temporal(naive, unit=unit).cast(pa.timestamp("us"))).to_pylist():
            if at is not None:
                start = self._grain.floor(_utc(at))
                yield Span(start, self._grain.next(start))


class _Ranges(io.RawIOBase):
    """A stored file, of which only the parts that are asked for are fetched."""

    def __init__(self, file: File, storage: Storage) -> None:
        self._file = file
        self._storage = storage
        self._at = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._file.size - self._at)
        content = self._storage.read_range(self._file.path, self._at, length) if length > 0 else b""
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)


def _utc(value: Any) -> datetime:
    """A value of Parquet's statistics: a date, or a time whose zone, if it has one, is UTC."""
    at = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)

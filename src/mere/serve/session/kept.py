"""Small answers, kept for whoever asks the same again: at a commit, with the same rights, they cannot be others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mere.serve.access import limits
from mere.serve.engine.recent import Recent
from mere.serve.protocol.port import Field

if TYPE_CHECKING:
    import pyarrow as pa

    from mere.serve.language.compiler import Compiled

_WEIGHT = 16 << 20  # bytes of all
_ROWS, _BYTES = 100, 16_384  # of one
_VALUES = 1000  # characters of the parameters of one
_EACH, _COLUMN = 1000, 300  # bytes that one takes besides its values, and a column of it

# The plan, the time zone, and the values as they are spelled: 1.0 and 1.00 are equal, and make other texts.
Key = tuple[int, str, str]


@dataclass(frozen=True)
class Kept:
    fields: tuple[Field, ...]
    batches: tuple[pa.RecordBatch, ...]


class Answers:
    """Threads may use it together."""

    def __init__(self) -> None:
        self._kept: Recent[Key, Kept] = Recent(_WEIGHT)

    def key(self, compiled: Compiled, zone: str, values: Sequence[Any]) -> Key | None:
        """None: the next answer may be another one."""
        if not compiled.number or not compiled.confirmed[compiled.sql]:
            return None
        spelled = repr(values)
        return (compiled.number, zone, spelled) if len(spelled) <= _VALUES else None

    def get(self, key: Key) -> Kept | None:
        return self._kept.get(key)

    def collected(
        self, key: Key, fields: tuple[Field, ...], batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """The same batches, which are kept once all of them were taken, if they are small."""
        import pyarrow as pa

        found: list[pa.RecordBatch] | None = []
        for batch in batches:
            if found is not None:
                found.append(batch)
                if sum(each.num_rows for each in found) > _ROWS or sum(each.nbytes for each in found) > _BYTES:
                    found = None
            yield batch
        if found is not None:
            # DuckDB's have room for thousands of rows.
            copies = tuple(each.take(pa.array(range(each.num_rows), pa.int32())) for each in found)
            weight = sum(each.nbytes for each in copies) + _COLUMN * len(fields) + len(key[2]) + _EACH
            self._kept.keep(key, Kept(fields, copies), weight)


class KeptAnswer:
    """Implements `port.Answer`."""

    def __init__(self, kept: Kept, most: int | None, gate: Callable[[], None]) -> None:
        self._kept = kept
        self._most = most
        self._gate = gate
        self.fields = kept.fields

    def batches(self) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in self._kept.batches:
            rows += batch.num_rows
            if self._most is not None and rows > self._most:
                raise limits.too_many_rows(self._most)
            self._gate()
            yield batch

    def cancel(self) -> None:
        pass

    def close(self) -> None:
        pass

"""Numbers, dates and times as digits, a whole column at a time: looked up four digits at once."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mere.serve.values import cells
from mere.serve.values.cells import Cells, Ints, Matrix

_POINT, _MINUS = b"."[0], b"-"[0]
_SECONDS = 86_400  # of a day


def decimals(values: Ints, scale: int) -> Cells:
    """Whole numbers of at most 64 bits, with the point before their last `scale` digits."""
    negative = values < 0
    sizes = np.abs(values).astype(np.uint64)  # of the least number as well, which has no opposite
    width = max(len(str(int(sizes.max(initial=0)))), scale + 1)
    counts = np.full(len(values), scale + 1)
    for power in range(scale + 1, width):
        counts += sizes >= 10**power
    content = digits(sizes, width)
    if scale:
        point = cells.same(b".", len(values))
        content = cells.side_by_side([content[:, : width - scale], point, content[:, width - scale :]])
        counts += 1
    if negative.any():
        content = cells.side_by_side([cells.same(b" ", len(values)), content])
        rows = np.flatnonzero(negative)
        counts[rows] += 1
        content[rows, content.shape[1] - counts[rows]] = _MINUS
    return cells.last(content, counts)


def digits(values: npt.NDArray[np.uint64], width: int) -> Matrix:
    """So many digits of each, with zeros before them."""
    rest = values.astype(np.uint32) if width < 10 else values
    groups = -(-width // 4)
    found = np.empty((len(values), groups), np.uint32)
    for group in range(groups - 1, 0, -1):
        above = rest // 10_000
        found[:, group] = _fours().take(rest - above * 10_000)
        rest = above
    found[:, 0] = _fours().take(rest)
    return found.view(np.uint8)[:, 4 * groups - width :]


@cache
def _fours() -> npt.NDArray[np.uint32]:
    """The numbers below ten thousand, in four digits each."""
    return np.frombuffer("".join(f"{each:04}" for each in range(10_000)).encode(), np.uint32)


def dates(days: Ints) -> Matrix:
    """Of days since 1970, from the year 1 to 9999."""
    if not len(days):
        return _dates(days)
    low, high = int(days.min()), int(days.max())
    return cells.chosen(_dates(np.arange(low, high + 1)), days - low) if high - low < len(days) else _dates(days)


def _dates(days: Ints) -> Matrix:
    written = cells.array(days.astype(np.int32), pa.date32()).cast(pa.string())
    return np.frombuffer(written.buffers()[2] or b"", np.uint8, 10 * len(days)).reshape(-1, 10)


def clocks(seconds: Ints) -> Matrix:
    """Of seconds of a day."""
    return cells.chosen(_clocks(), seconds)


@cache
def _clocks() -> Matrix:
    of_day = np.arange(_SECONDS).astype(np.uint64)
    parts = [digits(each, 2) for each in (of_day // 3600, of_day // 60 % 60, of_day % 60)]
    colon = cells.same(b":", _SECONDS)
    return cells.side_by_side([parts[0], colon, parts[1], colon, parts[2]])


def fractions(micros: Ints) -> Cells | None:
    """Of millionths of a second, those digits that count, behind a point; None where there are none at all."""
    some = micros != 0
    if not some.any():
        return None
    content = digits((micros + 1_000_000).astype(np.uint64), 7)
    content[:, 0] = _POINT
    counts = np.where(some, 7, 0)
    for power in range(1, 6):
        counts -= some & (micros % 10**power == 0)
    return cells.first(content, counts)

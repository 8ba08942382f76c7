"""Random numbers that are the same on every machine.

numpy promises that the bits of PCG64 never change, but not that its distributions do not, and a logarithm may end in
another digit on another processor. So all is made of these bits by whole numbers: cents, seconds, hundredths of miles.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_PARTS = 10_000
_STANDARD_DEVIATION = 37_837  # of the sum of four whole numbers below 65,536


class Draws:
    """A stream of its own for each key, whose first numbers do not depend on how many are drawn."""

    def __init__(self, *key: int) -> None:
        # The length tells a key from the same one with zeros at its end.
        self._bits = np.random.PCG64(np.random.SeedSequence((len(key), *key)))

    def below(self, limit: int | Ints, count: int) -> Ints:
        """From 0 up to, but without, a limit of at most 32 bits."""
        top = np.asarray(limit).astype(np.uint64)
        return ((self._raw(count) >> np.uint64(32)) * top >> np.uint64(32)).astype(np.int64)

    def between(self, low: int, high: int, count: int) -> Ints:
        """Both ends are meant."""
        return low + self.below(high - low + 1, count)

    def chance(self, of_10000: int | Ints, count: int) -> Flags:
        return self.below(_PARTS, count) < of_10000

    def weighted(self, weights: Sequence[int], count: int) -> Ints:
        """Positions in the weights, each as often as its weight says."""
        sums = np.array(list(accumulate(weights)), dtype=np.int64)
        return np.searchsorted(sums, self.below(int(sums[-1]), count), side="right").astype(np.int64)

    def distributed(self, quantiles: Sequence[int], count: int) -> Ints:
        """By quantiles at equal distances, with straight lines between them."""
        table = np.array(quantiles, dtype=np.int64)
        position = self.below(2**32, count) * (len(quantiles) - 1)
        cell, rest = position >> 32, position & (2**32 - 1)
        found: Ints = table[cell] + ((table[cell + 1] - table[cell]) * rest >> 32)
        return found

    def bell(self, deviation: int | Ints, count: int) -> Ints:
        """Around 0, nearly normal."""
        raw = self._raw(count)
        mask = np.uint64(0xFFFF)
        four = np.zeros(count, np.int64)
        for shift in (0, 16, 32, 48):
            four += (raw >> np.uint64(shift) & mask).astype(np.int64)
        return ((four - 2 * 0xFFFF) * deviation + _STANDARD_DEVIATION // 2) // _STANDARD_DEVIATION

    def copies(self, flags: Flags, reach: int) -> Ints:
        """Positions of rows, in which a flagged row is one of the few before it."""
        positions = np.arange(len(flags), dtype=np.int64)
        back = self.between(1, reach, len(flags))
        return np.where(flags, np.maximum(positions - back, 0), positions)

    def _raw(self, count: int) -> npt.NDArray[np.uint64]:
        return np.asarray(self._bits.random_raw(count), dtype=np.uint64)


def chunks(rows: int, size: int) -> list[tuple[int, int]]:
    """Start and length of each part of so many rows."""
    return [(start, min(size, rows - start)) for start in range(0, rows, size)]

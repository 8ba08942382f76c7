"""Minute bars of stocks in the style of public flat files: one gzip CSV per trading day, by ticker and minute."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from itertools import islice
from typing import Any, BinaryIO
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from mere.generate.draws import Draws, Ints, chunks
from mere.generate.files import File, csv_lines

MAX_TICKERS = 26**3
NEW_COLUMN = "vwap"
COLUMNS = ("ticker", "volume", "open", "close", "high", "low", "window_start", "transactions")

_KEY = 2  # of the streams of this dataset
_TRAITS, _DAY, _BARS, _ORDER, _POISON = range(5)
_BLOCK = 256  # tickers that are made together
_EXCHANGE = ZoneInfo("America/New_York")
_OPENS, _MINUTES = time(4), 16 * 60  # from the first bar before the regular hours to the last after them
# Of a regular minute's trades, in percent: before 9:30, until 16:00, and after.
_SHARE = np.repeat(np.array([12, 100, 9], dtype=np.int64), [330, 390, 240])
_LEVEL = 1_000_000  # parts of a price in which it moves
_DAILY_MOVE = 15_000
_LOWEST, _HIGHEST = 10_000, 50_000_000  # in hundredths of a cent

# Dirt: of 10,000 rows.
_DUPLICATES = 20
_MISPLACED = 40

_VOLUMES = (  # at each 32nd: log-normal around 1,000
    100, 187, 251, 305, 355, 403, 450, 497, 545, 594, 644, 696, 751, 808, 868, 932, 1000, 1073, 1152, 1238, 1332, 1436,
    1553, 1684, 1835, 2011, 2222, 2482, 2816, 3275, 3978, 5347, 15000,
)  # fmt: skip
_QUIET = (50, 100, 200, 400, 900, 1800, 3000, 5000, 7500)  # of 10,000 minutes without a trade, at each 8th
_PRICES = (8, 15, 21, 27, 33, 39, 45, 52, 60, 69, 80, 93, 110, 133, 169, 239, 520)  # dollars, at each 16th


_NEW_COLUMN_AFTER = 30  # trading days, if nobody says when


@dataclass(frozen=True)
class Market:
    """`days` are trading days, Monday to Friday. A day is the same however many follow it.

    `poison` is the share of lines that no reader can take for a bar. From `new_column_at` on there is a column more.
    """

    days: int = 60
    tickers: int = 50
    seed: int = 1
    start: datetime = datetime(2024, 1, 2, tzinfo=UTC)
    poison: float = 0.0
    new_column_at: datetime | None = None  # None: after 30 trading days

    @property
    def count(self) -> int:
        return self.days

    def files(self) -> Iterator[File]:
        tickers = _tickers(self.seed, self.tickers)
        new_column_at = self.new_column_at or trading_days(self.start, _NEW_COLUMN_AFTER + 1)[-1]
        price = tickers.price
        for day in trading_days(self.start, self.days):
            move = Draws(self.seed, _KEY, _DAY, day.toordinal()).bell(_DAILY_MOVE, self.tickers)
            following = np.clip(price * (_LEVEL + move) // _LEVEL, _LOWEST, _HIGHEST)
            trading = Day(day, self.seed, tickers, price, following, self.poison, day >= new_column_at)
            yield File(f"{day:%Y/%m/%Y-%m-%d}.csv.gz", trading.write)
            price = following


def trading_days(start: datetime, count: int) -> list[datetime]:
    """Holidays are not left out."""
    weekdays = (day for day in (start + timedelta(days=number) for number in range(7 + 2 * count)) if day.weekday() < 5)
    return list(islice(weekdays, count))


@dataclass(frozen=True)
class Tickers:
    """An array has a place for each ticker."""

    names: tuple[str, ...]
    price: Ints  # at the start, in hundredths of a cent
    activity: Ints  # in how many of 10,000 regular minutes there is a trade
    volatility: Ints  # of a minute, in parts of a million


def _tickers(seed: int, count: int) -> Tickers:
    letters = [(number * 10_007 + 4_242) % MAX_TICKERS for number in range(count)]
    names = sorted("".join(chr(65 + value // 26**place % 26) for place in (2, 1, 0)) for value in letters)
    draws = Draws(seed, _KEY, _TRAITS)
    return Tickers(
        names=tuple(names),
        price=draws.distributed(_PRICES, count) * 10_000 + draws.below(10_000, count),
        activity=10_000 - draws.distributed(_QUIET, count),
        volatility=draws.between(200, 700, count),
    )


@dataclass(frozen=True)
class Day:
    day: datetime
    seed: int
    tickers: Tickers
    first: Ints  # the prices with which the day starts, in hundredths of a cent
    last: Ints  # and those with which it ends
    poison: float
    has_new_column: bool

    def write(self, stream: BinaryIO) -> int:
        columns = (*COLUMNS, NEW_COLUMN) if self.has_new_column else COLUMNS
        rows = 0
        # No name and no time in the header: the same bytes at any time, in any folder.
        with gzip.GzipFile(filename="", fileobj=stream, mode="wb", compresslevel=4, mtime=0) as packed:
            packed.write(",".join(columns).encode() + b"\n")
            for start, count in chunks(len(self.tickers.names), _BLOCK):
                bars = self._bars(start, count)
                lines = csv_lines({name: bars[name] for name in columns})
                packed.write(self._poisoned(lines, start))
                rows += len(bars[COLUMNS[0]])
        return rows

    def _draws(self, purpose: int, start: int) -> Draws:
        return Draws(self.seed, _KEY, purpose, self.day.toordinal(), start)

    def _bars(self, start: int, count: int) -> dict[str, Any]:
        draws = self._draws(_BARS, start)
        path = self._path(draws, start, count)
        activity = np.repeat(self.tickers.activity[start : start + count], _MINUTES)
        traded = draws.chance(activity * np.tile(_SHARE, count) // 100, len(activity))
        ticker, minute = np.nonzero(traded.reshape(count, _MINUTES))
        opened, closed = path[ticker, minute], path[ticker, minute + 1]
        rows = len(ticker)
        room = opened * self.tickers.volatility[start + ticker] // _LEVEL + 2
        volume = draws.distributed(_VOLUMES, rows) * _SHARE[minute] // 100 + 1
        cents = {
            "open": opened,
            "close": closed,
            "high": np.maximum(opened, closed) + draws.below(room, rows),
            "low": np.maximum(np.minimum(opened, closed) - draws.below(room, rows), 1),
        }
        columns = {
            "ticker": start + ticker,
            "volume": volume,
            "window_start": (self._opening + minute * 60) * 1_000_000_000,
            "transactions": 1 + volume // draws.between(40, 160, rows),
            NEW_COLUMN: sum(cents.values(), np.zeros(rows, np.int64)) / 400,
            **{name: amount / 100 for name, amount in cents.items()},
        }
        order = self._order(start, rows)
        arrays = {name: pa.array(values[order]) for name, values in columns.items()}
        return arrays | {"ticker": pa.array(self.tickers.names).take(arrays["ticker"])}

    @property
    def _opening(self) -> int:
        return int(datetime.combine(self.day.date(), _OPENS, _EXCHANGE).timestamp())

    def _path(self, draws: Draws, start: int, count: int) -> Ints:
        """Prices in cents at the start of each minute, and at the end: a walk that ends where the next day starts."""
        chosen = slice(start, start + count)
        first, last = self.first[chosen, np.newaxis], self.last[chosen, np.newaxis]
        steps = draws.bell(np.repeat(self.tickers.volatility[chosen], _MINUTES), count * _MINUTES)
        walk = np.zeros((count, _MINUTES + 1), np.int64)
        np.cumsum(steps.reshape(count, _MINUTES), axis=1, out=walk[:, 1:])
        astray = (last - first) * _LEVEL // first - walk[:, -1:]
        walk += astray * np.arange(_MINUTES + 1) // _MINUTES
        cents: Ints = np.maximum(first * (_LEVEL + walk) // (_LEVEL * 100), 1)
        return cents

    def _order(self, start: int, rows: int) -> Ints:
        """Of the rows in the file: some stand there twice, and some where others belong."""
        draws = self._draws(_ORDER, start)
        order = draws.copies(draws.chance(_DUPLICATES, rows), 5)
        misplaced = draws.chance(_MISPLACED, rows)
        order[misplaced] = np.roll(order[misplaced], 1)
        return order

    def _poisoned(self, lines: bytes, start: int) -> bytes:
        if not self.poison:
            return lines
        draws, each = self._draws(_POISON, start), lines.splitlines(keepends=False)
        bad = draws.below(_LEVEL, len(each)) < round(self.poison * _LEVEL)
        kinds = draws.below(len(_SPOILED), len(each))
        for position in np.flatnonzero(bad):
            each[position] = _SPOILED[kinds[position]](each[position].split(b","))
        return b"".join(line + b"\n" for line in each)


# None of these is a bar, with or without the new column: neither by the number of values nor by their types.
_SPOILED: tuple[Callable[[Sequence[bytes]], bytes], ...] = (
    lambda values: b",".join(values[:3]),
    lambda values: b",".join([*values, b"0", b"0"]),
    lambda values: b",".join([values[0], b"n/a", *values[2:]]),
    lambda values: b",".join([values[0], b"9" * 30, *values[2:]]),
    lambda values: b",".join([b"\xff\xfe" + values[0], *values[1:]]),
    lambda _: b"--- connection lost ---",
)

"""A shop with the files of the well-known jaffle shop: customers, orders and payments as CSV.

There is each as a whole, as of the last day, and an export at the end of each month, so that customers move and orders
get on from one to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mere.generate.draws import Draws, Flags, Ints, chunks
from mere.generate.files import File, csv_lines
from mere.generate.words import CITIES, FIRST_NAMES, LAST_NAMES
from mere.windows import Grain

_KEY = 3  # of the streams of this dataset
_PEOPLE, _ROUNDS = range(2)
_CHUNK = 10_000  # customers that are made together
_CACHED = 8  # chunks that are kept from one file to the next
_MOST_ORDERS = 10_000  # of a customer
_DAY = 86_400
_NEVER = 2**40  # a second far away

_STATUSES = ("placed", "shipped", "completed", "return_pending", "returned")
_METHODS = ("credit_card", "bank_transfer", "gift_card", "coupon")
_AMOUNTS = (300, 600, 900, 1200, 1500, 1900, 2400, 3200, 5000, 12000)  # cents, at each 9th

Rows = dict[str, Any]  # Arrow arrays by column


@dataclass(frozen=True)
class Jaffle:
    """A customer and an order are the same whatever the number of customers and days. Six of ten customers
    joined in the year before the start, the others join in the year after it."""

    customers: int = 500
    days: int = 365
    seed: int = 1
    start: datetime = datetime(2024, 1, 1, tzinfo=UTC)

    @property
    def count(self) -> int:
        return 3 * (1 + len(self._ends()))

    def files(self) -> Iterator[File]:
        since = None
        for end in self._ends():
            for name, rows_of in _TABLES.items():
                yield self._file(f"exports/{name}_{end - timedelta(days=1):%Y-%m-%d}.csv", rows_of, since, end)
            since = end
        for name, rows_of in _TABLES.items():
            yield self._file(f"raw_{name}.csv", rows_of, None, self.end)

    @property
    def end(self) -> datetime:
        return self.start + timedelta(days=self.days)

    def _ends(self) -> list[datetime]:
        """The midnights after the days of the exports."""
        ends = [self.start]
        while ends[-1] < self.end:
            ends.append(min(Grain.MONTH.next(Grain.MONTH.floor(ends[-1])), self.end))
        return ends[1:]

    def _file(self, name: str, rows_of: RowsOf, since: datetime | None, end: datetime) -> File:
        period = Period(0 if since is None else int(since.timestamp()), int(end.timestamp()))
        return File(name, partial(self._write, rows_of=rows_of, period=period))

    def _write(self, stream: BinaryIO, rows_of: RowsOf, period: Period) -> int:
        rows = 0
        start, end = int(self.start.timestamp()), int(self.end.timestamp())
        for number, (_, count) in enumerate(chunks(self.customers, _CHUNK)):
            found = rows_of(_chunk(self.seed, start, end, number, count), period)
            if not number:
                stream.write(",".join(found).encode() + b"\n")
            stream.write(csv_lines(found))
            rows += len(next(iter(found.values())))
        return rows


@dataclass(frozen=True)
class Period:
    """Instants in seconds: from the last export up to this one."""

    since: int
    end: int

    def has(self, at: Ints) -> Flags:
        return (at >= self.since) & (at < self.end)


@dataclass(frozen=True)
class People:
    """The customers of a chunk, with what happens to them; times are seconds, `_NEVER` if it does not."""

    id: Ints
    joined: Ints
    rhythm: Ints  # days from one order to the next, about
    silent: Ints  # no orders from then on
    first_name: Ints
    last_names: tuple[Ints, Ints]
    renamed: Ints
    cities: tuple[Ints, Ints, Ints]
    moved: tuple[Ints, Ints]


@dataclass(frozen=True)
class Orders:
    id: Ints
    customer: Ints
    amount: Ints
    coupon: Ints  # what is paid by it, of the amount; mostly 0
    method: Ints
    times: Ints  # a row for each status


@dataclass(frozen=True)
class Chunk:
    people: People
    orders: Orders


RowsOf = Callable[[Chunk, Period], Rows]


@lru_cache(maxsize=_CACHED)
def _chunk(seed: int, start: int, end: int, number: int, count: int) -> Chunk:
    people = _people(seed, start, number)
    people = replace(people, joined=np.where(np.arange(_CHUNK) < count, people.joined, _NEVER))
    return Chunk(people, _orders(seed, end, number, people))


def _people(seed: int, start: int, number: int) -> People:
    draws = Draws(seed, _KEY, _PEOPLE, number)
    before = draws.chance(6000, _CHUNK)
    day = draws.below(365, _CHUNK) - np.where(before, 365, 0)
    joined = start + day * _DAY + draws.below(8 * 3600, _CHUNK)
    last_name, city = draws.below(len(LAST_NAMES), _CHUNK), draws.below(len(CITIES), _CHUNK)
    next_city = (city + draws.between(1, len(CITIES) - 1, _CHUNK)) % len(CITIES)
    moved = _sometime(draws, 3500, joined, 20, 900)
    return People(
        id=number * _CHUNK + 1 + np.arange(_CHUNK),
        joined=joined,
        rhythm=draws.between(10, 60, _CHUNK),
        silent=_sometime(draws, 2000, joined, 60, 500),
        first_name=draws.below(len(FIRST_NAMES), _CHUNK),
        last_names=(last_name, (last_name + draws.between(1, len(LAST_NAMES) - 1, _CHUNK)) % len(LAST_NAMES)),
        renamed=_sometime(draws, 1000, joined, 20, 900),
        cities=(city, next_city, (next_city + draws.between(1, len(CITIES) - 1, _CHUNK)) % len(CITIES)),
        moved=(moved, _sometime(draws, 3000, moved, 5, 300)),
    )


def _sometime(draws: Draws, of_10000: int, after: Ints, low: int, high: int) -> Ints:
    """So many days later, for some; at a second that no other day shares."""
    count = len(after)
    later = after + draws.between(low, high, count) * _DAY + draws.below(3600, count)
    return np.where(draws.chance(of_10000, count), later, _NEVER)


def _orders(seed: int, end: int, number: int, people: People) -> Orders:
    """In rounds: the first order of everyone, the second, and so on until nobody orders any more."""
    found = [np.zeros((5 + len(_STATUSES), 0), np.int64)]
    midnight = people.joined // _DAY * _DAY
    until = np.minimum(people.silent, end)
    while True:
        draws = Draws(seed, _KEY, _ROUNDS, number, len(found))
        midnight = midnight + _DAY * (people.rhythm // 2 + draws.below(people.rhythm, _CHUNK))
        placed = midnight + draws.between(8 * 3600, 22 * 3600, _CHUNK)
        buyers = np.flatnonzero(placed < until)
        if not len(buyers):
            break
        identity = people.id * _MOST_ORDERS + len(found)
        amount = draws.distributed(_AMOUNTS, _CHUNK)
        coupon = np.where(draws.chance(1000, _CHUNK), amount * draws.between(10, 50, _CHUNK) // 100, 0)
        method = draws.weighted((70, 20, 10), _CHUNK)
        columns = np.vstack([identity, people.id, amount, coupon, method, _times(draws, placed)])
        found.append(columns[:, buyers])
    orders = np.concatenate(found, axis=1)
    orders = orders[:, np.argsort(orders[0], kind="stable")]
    return Orders(orders[0], orders[1], orders[2], orders[3], orders[4], times=orders[5:])


def _times(draws: Draws, placed: Ints) -> Ints:
    """When an order got each status."""
    count = len(placed)
    shipped = placed + draws.between(12 * 3600, 3 * _DAY, count)
    completed = shipped + draws.between(_DAY, 6 * _DAY, count)
    pending = np.where(draws.chance(700, count), completed + draws.between(_DAY, 20 * _DAY, count), _NEVER)
    returned = np.where(draws.chance(8000, count), pending + draws.between(_DAY, 10 * _DAY, count), _NEVER)
    return np.stack([placed, shipped, completed, pending, returned])


def _customer_rows(chunk: Chunk, period: Period) -> Rows:
    """All who joined: an export of customers is whole."""
    people, end = chunk.people, period.end
    renamed, (moved, moved_again) = people.renamed < end, (each < end for each in people.moved)
    events = np.stack([people.joined, people.renamed, *people.moved])
    columns = {
        "id": people.id,
        "first_name": people.first_name,
        "last_name": np.where(renamed, people.last_names[1], people.last_names[0]),
        "email": people.last_names[0],
        "city": np.select([moved_again, moved], [people.cities[2], people.cities[1]], people.cities[0]),
        "created_at": people.joined,
        "updated_at": np.where(events < end, events, 0).max(axis=0),
    }
    joined = people.joined < end
    rows: Rows = {name: pa.array(values[joined]) for name, values in columns.items()}
    rows["first_name"] = pa.array(FIRST_NAMES).take(rows["first_name"])
    rows["last_name"] = pa.array(LAST_NAMES).take(rows["last_name"])
    rows["email"] = _addresses(rows["first_name"], pa.array(LAST_NAMES).take(rows["email"]), rows["id"])
    rows["city"] = pa.array(CITIES).take(rows["city"])
    return _with_times(rows, "created_at", "updated_at")


def _addresses(first: pa.Array, last: pa.Array, identity: pa.Array) -> pa.Array:
    """An address stays when the name changes."""
    number = identity.cast(pa.string())
    names = pc.utf8_lower(pc.binary_join_element_wise(first, last, number, "."))
    return pc.binary_join_element_wise(names, "example.com", "@")


def _order_rows(chunk: Chunk, period: Period) -> Rows:
    """Those that are new or have another status."""
    orders = chunk.orders
    status = (orders.times < period.end).sum(axis=0) - 1
    updated = orders.times[status, np.arange(len(status))]
    chosen = (status >= 0) & period.has(updated)
    rows: Rows = {
        "id": pa.array(orders.id[chosen]),
        "user_id": pa.array(orders.customer[chosen]),
        "order_date": pa.array((orders.times[0][chosen] // _DAY).astype(np.int32)).cast(pa.date32()),
        "status": pa.array(_STATUSES).take(pa.array(status[chosen])),
        "updated_at": pa.array(updated[chosen]),
    }
    return _with_times(rows, "updated_at")


def _payment_rows(chunk: Chunk, period: Period) -> Rows:
    """Those that are new or were given back. A coupon is a payment of its own."""
    orders = chunk.orders
    placed, refunded = orders.times[0], orders.times[-1]
    updated = np.where(refunded < period.end, refunded, placed)
    chosen = period.has(updated)
    by_coupon = chosen & (orders.coupon > 0)
    coupon = np.full(len(placed), _METHODS.index("coupon"))
    both = {
        "id": (orders.id * 10 + 1, orders.id * 10 + 2),
        "order_id": (orders.id, orders.id),
        "payment_method": (orders.method, coupon),
        "amount": (orders.amount - orders.coupon, orders.coupon),
        "status": (refunded < period.end,) * 2,
        "updated_at": (updated, updated),
    }
    columns = {name: np.concatenate([first[chosen], second[by_coupon]]) for name, (first, second) in both.items()}
    order = np.argsort(columns["id"], kind="stable")
    rows: Rows = {name: pa.array(values[order].astype(np.int64)) for name, values in columns.items()}
    rows["payment_method"] = pa.array(_METHODS).take(rows["payment_method"])
    rows["status"] = pa.array(["paid", "refunded"]).take(rows["status"])
    return _with_times(rows, "updated_at")


def _with_times(rows: Rows, *names: str) -> Rows:
    return rows | {name: rows[name].cast(pa.timestamp("s")) for name in names}


_TABLES: dict[str, RowsOf] = {"customers": _customer_rows, "orders": _order_rows, "payments": _payment_rows}

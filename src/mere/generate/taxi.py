"""Yellow taxi trips as New York's TLC publishes them: one Parquet file per month, as dirty as the real ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from mere.generate.draws import Draws, Flags, Ints, chunks
from mere.generate.files import File, csv_lines
from mere.generate.words import PARTS, PLACES
from mere.windows import Grain

_KEY = 1  # of the streams of this dataset
_CHUNK = 131_072

# Dirt: of 10,000 rows.
_UNKNOWN = 450  # no passenger count, and neither of what came with the same message
_DUPLICATES = 30
_REFUNDS = 80
_LATE = 20  # picked up in the days before the month
_BACKWARDS = 10  # dropped off before it was picked up
_STANDING = 120  # a distance of zero

# How busy an hour is, and how fast taxis are then, in tenths of a mile an hour.
_WEEKDAY = (9, 5, 3, 2, 3, 8, 20, 36, 44, 42, 40, 42, 45, 46, 50, 54, 55, 62, 68, 62, 54, 50, 42, 26)
_WEEKEND = (38, 32, 26, 18, 10, 5, 6, 10, 17, 26, 36, 42, 46, 47, 47, 47, 46, 48, 52, 50, 44, 42, 44, 44)
_SPEED = (150, 160, 170, 180, 190, 180, 140, 110, 95, 92, 92, 90, 90, 90, 88, 86, 90, 90, 95, 105, 115, 120, 130, 140)

_DISTANCES = (  # in hundredths of a mile, at each 64th: log-normal around 1.9 miles
    10, 30, 39, 46, 52, 57, 62, 67, 71, 76, 81, 85, 89, 94, 98, 103, 107, 112, 116, 121, 125, 130, 135, 140, 145, 150,
    155, 161, 166, 172, 178, 184, 190, 196, 203, 210, 217, 225, 232, 241, 249, 258, 267, 277, 288, 299, 311, 324, 337,
    352, 368, 385, 404, 425, 448, 475, 505, 540, 583, 634, 700, 790, 926, 1185, 3800,
)  # fmt: skip

_NEWARK, _AIRPORTS, _UNKNOWN_ZONE, _OUTSIDE = 1, (132, 138), 264, 265
_FLAT_RATE_AIRPORT = 132
_BOROUGHS = (("Manhattan", 69), ("Queens", 69), ("Brooklyn", 61), ("Bronx", 43), ("Staten Island", 20))
_VENDORS = (2, 1, 6, 7)
_PASSENGERS = (1, 2, 3, 4, 5, 6, 0)
_CBD_FEE_FROM = datetime(2025, 1, 1, tzinfo=UTC)  # the TLC's files have one more column since

SCHEMA = pa.schema(
    [
        ("VendorID", pa.int32()),
        ("tpep_pickup_datetime", pa.timestamp("us")),
        ("tpep_dropoff_datetime", pa.timestamp("us")),
        ("passenger_count", pa.int64()),
        ("trip_distance", pa.float64()),
        ("RatecodeID", pa.int64()),
        ("store_and_fwd_flag", pa.string()),
        ("PULocationID", pa.int32()),
        ("DOLocationID", pa.int32()),
        ("payment_type", pa.int64()),
        ("fare_amount", pa.float64()),
        ("extra", pa.float64()),
        ("mta_tax", pa.float64()),
        ("tip_amount", pa.float64()),
        ("tolls_amount", pa.float64()),
        ("improvement_surcharge", pa.float64()),
        ("total_amount", pa.float64()),
        ("congestion_surcharge", pa.float64()),
        ("Airport_fee", pa.float64()),
    ]
)
_CBD_FEE = pa.field("cbd_congestion_fee", pa.float64())


@dataclass(frozen=True)
class Zone:
    id: int
    borough: str
    name: str
    service: str
    weight: int  # how many trips start or end there


def _zones() -> tuple[Zone, ...]:
    """Airports, and what is no place, have the ids that the TLC gave them: queries for real files work here."""
    special = {
        _NEWARK: Zone(_NEWARK, "EWR", "Newark Airport", "EWR", 15),
        _AIRPORTS[0]: Zone(_AIRPORTS[0], "Queens", "South Field Airport", "Airports", 190),
        _AIRPORTS[1]: Zone(_AIRPORTS[1], "Queens", "North Bay Airport", "Airports", 150),
        _UNKNOWN_ZONE: Zone(_UNKNOWN_ZONE, "Unknown", "N/A", "N/A", 25),
        _OUTSIDE: Zone(_OUTSIDE, "N/A", "Outside of the city", "N/A", 10),
    }
    bounds = list(accumulate(zones for _, zones in _BOROUGHS))
    found = []
    for number in range(1, _OUTSIDE + 1):
        rank = number * 97 % bounds[-1]  # spreads the boroughs over the ids
        borough = next(index for index, bound in enumerate(bounds) if rank < bound)
        manhattan = borough == 0
        place = f"{PLACES[number % len(PLACES)]} {PARTS[number // len(PLACES)]}"
        weight = 2000 // (rank + 3) + 20 if manhattan else 1 + number % 6
        service = "Yellow Zone" if manhattan else "Boro Zone"
        found.append(special.get(number) or Zone(number, _BOROUGHS[borough][0], place, service, weight))
    return tuple(found)


ZONES = _zones()
_WEIGHTS = tuple(zone.weight for zone in ZONES)
# By id, with a place for 0.
_IN_MANHATTAN = np.array([False, *(zone.borough == "Manhattan" for zone in ZONES)])
_AT_AIRPORT = np.array([False, *(zone.service == "Airports" for zone in ZONES)])


@dataclass(frozen=True)
class Taxi:
    """`rows` is the number of rows of each month's file. A month is the same whatever the others are."""

    months: int = 3
    rows: int = 100_000
    seed: int = 1
    start: datetime = datetime(2024, 1, 1, tzinfo=UTC)

    @property
    def count(self) -> int:
        return self.months + 1

    def files(self) -> Iterator[File]:
        yield File("taxi_zone_lookup.csv", _write_zones)
        month = Grain.MONTH.floor(self.start)
        for _ in range(self.months):
            name = f"yellow_tripdata_{Grain.MONTH.label(month)}.parquet"
            yield File(name, partial(_write_month, month=month, rows=self.rows, seed=self.seed))
            month = Grain.MONTH.next(month)


def _write_zones(stream: BinaryIO) -> int:
    stream.write(b"LocationID,Borough,Zone,service_zone\n")
    columns = list(zip(*((zone.id, zone.borough, zone.name, zone.service) for zone in ZONES), strict=True))
    stream.write(csv_lines({str(position): pa.array(column) for position, column in enumerate(columns)}))
    return len(ZONES)


def _write_month(stream: BinaryIO, month: datetime, rows: int, seed: int) -> int:
    schema = SCHEMA.append(_CBD_FEE) if month >= _CBD_FEE_FROM else SCHEMA
    with pq.ParquetWriter(
        stream, schema, version="2.6", compression="zstd", compression_level=3, data_page_version="1.0"
    ) as writer:
        parts, busy = chunks(rows, _CHUNK), _busy(month, seed)
        for number, (_, count) in enumerate(parts):
            draws = Draws(seed, _KEY, month.year, month.month, number)
            pickups = int(month.timestamp()) + _pickups(draws, busy, number, len(parts), count)
            columns = _trips(draws, month, pickups, count)
            writer.write_table(pa.table(columns).select(schema.names).cast(schema), row_group_size=_CHUNK)
    return rows


def _busy(month: datetime, seed: int) -> Ints:
    """How many trips there are in each hour of a month, against the others. One day is better than another."""
    days = (Grain.MONTH.next(month) - month).days
    good = Draws(seed, _KEY, month.year, month.month).between(8, 12, days)
    usual = [_WEEKDAY if (month.weekday() + day) % 7 < 5 else _WEEKEND for day in range(days)]
    return (np.array(usual, dtype=np.int64) * good[:, np.newaxis]).ravel()


def _pickups(draws: Draws, busy: Ints, part: int, parts: int, count: int) -> Ints:
    """Seconds of the month in one of its parts, in order."""
    # Lay the seconds of the month side by side, each as wide as its hour is busy, and choose points on that line.
    ends = np.cumsum(busy) * 3600
    low, high = (int(ends[-1]) * edge // parts for edge in (part, part + 1))
    place = np.sort(low + draws.below(high - low, count))
    hour = np.searchsorted(ends, place, side="right")
    return hour * 3600 + (place - ends[hour] + busy[hour] * 3600) // busy[hour]


def _trips(draws: Draws, month: datetime, pickup: Ints, count: int) -> dict[str, Any]:
    late = draws.chance(_LATE, count)
    pickup = np.where(late, int(month.timestamp()) - 1 - draws.below(2 * 86_400, count), pickup)
    start, stop = 1 + draws.weighted(_WEIGHTS, count), 1 + draws.weighted(_WEIGHTS, count)
    distance = _distances(draws, start, stop, count)
    hour = pickup // 3600 % 24
    speed = np.array(_SPEED)[hour] * draws.between(85, 165, count)
    seconds = distance * 36_000 // speed + draws.between(60, 300, count)
    backwards = draws.chance(_BACKWARDS, count)
    dropoff = pickup + np.where(backwards, -draws.between(60, 3600, count), seconds)
    trips = {
        "VendorID": np.array(_VENDORS)[draws.weighted((750, 240, 8, 2), count)],
        "tpep_pickup_datetime": pickup,
        "tpep_dropoff_datetime": dropoff,
        "passenger_count": np.array(_PASSENGERS)[draws.weighted((750, 150, 35, 25, 13, 9, 18), count)],
        "trip_distance": distance,
        "RatecodeID": _rates(start, stop),
        "store_and_fwd_flag": draws.chance(50, count).astype(np.int64),
        "PULocationID": start,
        "DOLocationID": stop,
        "payment_type": 1 + draws.weighted((80, 17, 1, 2), count),
    }
    unknown = draws.chance(_UNKNOWN, count)
    trips["payment_type"][unknown] = 0
    amounts = _amounts(draws, trips, seconds, unknown)
    if month < _CBD_FEE_FROM:
        amounts["total_amount"] -= amounts.pop(_CBD_FEE.name)
    return _with_copies(draws, trips, amounts, unknown)


def _distances(draws: Draws, start: Ints, stop: Ints, count: int) -> Ints:
    """In hundredths of a mile."""
    far = _AT_AIRPORT[start] | _AT_AIRPORT[stop] | (start == _NEWARK) | (stop == _NEWARK)
    distance = draws.distributed(_DISTANCES, count) + np.where(far, draws.between(700, 1500, count), 0)
    return np.where(draws.chance(_STANDING, count), 0, distance)


def _rates(start: Ints, stop: Ints) -> Ints:
    """1 by the meter, 2 a flat rate between an airport and Manhattan, 3 to and from Newark."""
    flat = (start == _FLAT_RATE_AIRPORT) & _IN_MANHATTAN[stop] | (stop == _FLAT_RATE_AIRPORT) & _IN_MANHATTAN[start]
    return np.select([flat, (start == _NEWARK) | (stop == _NEWARK)], [2, 3], 1)


def _amounts(draws: Draws, trips: dict[str, Ints], seconds: Ints, unknown: Flags) -> dict[str, Ints]:
    """In cents."""
    start, stop, distance, pickup = (
        trips[name] for name in ("PULocationID", "DOLocationID", "trip_distance", "tpep_pickup_datetime")
    )
    count, rate = len(start), trips["RatecodeID"]
    # The meter counts each fifth of a mile, and each minute below 12 miles an hour.
    metered = 300 + 70 * (distance // 20) + 70 * (np.maximum(seconds - 3 * distance, 0) // 60)
    fare = np.select([rate == 2, rate == 3], [7000, metered + 2000], metered)
    hour, weekday = pickup // 3600 % 24, (pickup // 86_400 + 3) % 7  # 0 is Monday
    rush = (weekday < 5) & (hour >= 16) & (hour < 20)
    paid_by_card = trips["payment_type"] == 1
    manhattan = _IN_MANHATTAN[start] | _IN_MANHATTAN[stop]
    far = (rate != 1) | _AT_AIRPORT[start] | _AT_AIRPORT[stop]
    amounts = {
        "fare_amount": fare,
        "extra": np.select([rush, (hour >= 20) | (hour < 6)], [250, 100], 0),
        "mta_tax": np.where(rate == 3, 0, 50),
        "tip_amount": np.where(paid_by_card & draws.chance(9500, count), fare * draws.between(10, 30, count) // 100, 0),
        "tolls_amount": np.where(far & draws.chance(4000, count), 694, 0),
        "improvement_surcharge": np.full(count, 100),
        "congestion_surcharge": np.where(manhattan & ~unknown, 250, 0),
        "Airport_fee": np.where(_AT_AIRPORT[start] & ~unknown, 175, 0),
        _CBD_FEE.name: np.where(manhattan, 75, 0),
    }
    return amounts | {"total_amount": sum(amounts.values(), np.zeros(count, np.int64))}


def _with_copies(draws: Draws, trips: dict[str, Ints], amounts: dict[str, Ints], unknown: Flags) -> dict[str, pa.Array]:
    """Some rows give way to a refund of a trip shortly before, and some to a row that is there already."""
    count = len(unknown)
    refund = draws.chance(_REFUNDS, count)
    again = draws.copies(draws.chance(_DUPLICATES, count), 20)
    source, refund = draws.copies(refund, 20)[again], refund[again]
    trips = {name: values[source] for name, values in trips.items()}
    dollars = {name: np.where(refund, -1, 1) * values[source] / 100 for name, values in amounts.items()}
    trips["payment_type"][refund] = 4
    unknown = unknown[source]
    columns = {
        **trips,
        **dollars,
        "tpep_pickup_datetime": _microseconds(trips["tpep_pickup_datetime"]),
        "tpep_dropoff_datetime": _microseconds(trips["tpep_dropoff_datetime"]),
        "trip_distance": trips["trip_distance"] / 100,
    }
    nullable = ("passenger_count", "RatecodeID", "store_and_fwd_flag", "congestion_surcharge", "Airport_fee")
    arrays = {name: pa.array(values, mask=unknown if name in nullable else None) for name, values in columns.items()}
    return arrays | {"store_and_fwd_flag": pa.array(["N", "Y"]).take(arrays["store_and_fwd_flag"])}


def _microseconds(seconds: Ints) -> npt.NDArray[np.datetime64]:
    return (seconds * 1_000_000).view("datetime64[us]")

"""Dates and times in all spellings, as a real Postgres reads them."""

from __future__ import annotations

from itertools import product

import psycopg
import pytest

_TIMES = (
    "", " 12:00", " 12:00:00", " 12:00:00.5", " 120000", " 1200", "T12:00", "T120000", " 24:00", " 1:2:3",
    " 04:05:06.789123456",
)  # fmt: skip
_ZONES = ("", "Z", "z", "+00", "+0", "-3", "+5:30", "+05:30", "+0530", "+05:30:15", " +00", " UTC", " utc", " GMT")
_DAYS = ("2024-07-01", "2024-7-1", "20240701", "2024/07/01")
_BAD = (" 12", " 12 +00", " 12 PM", " 12:00:00,5", " 12:00:00,5Z")


def _read(connection: psycopg.Connection, kind: str, written: str) -> str | None:
    try:
        found = connection.execute(f"SELECT ({kind} '{written}')::text").fetchone()
    except psycopg.DataError:
        return None
    assert found
    return str(found[0])


@pytest.mark.parametrize("kind", ["timestamptz", "timestamp", "date"])
def test_a_moment_is_read_as_postgres_reads_it(kind: str, shop_in_lake: str, shop_in_postgres: str) -> None:
    spelled = {day + time + zone for day, time, zone in product(_DAYS, _TIMES, _ZONES) if time or not zone}
    spelled |= {day + bad for day, bad in product(("2024-07-01",), _BAD)}
    with psycopg.connect(shop_in_lake) as ours, psycopg.connect(shop_in_postgres, autocommit=True) as theirs:
        ours.autocommit = True
        for connection in (ours, theirs):
            connection.execute("SET timezone = 'UTC'")
        wrong = {
            written: (found, wanted)
            for written in sorted(spelled)
            if (found := _read(ours, kind, written)) != (wanted := _read(theirs, kind, written))
        }
    assert wrong == {}

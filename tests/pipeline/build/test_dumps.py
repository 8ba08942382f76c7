"""Histories of full dumps, built by runs: in whatever order dumps come and are corrected, and whenever a run comes."""

from __future__ import annotations

import random
import warnings
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from tests.pipeline.conftest import MakeShop
from tests.pipeline.histories import Rows, dumped
from tests.pipeline.shop import Shop

TABLE = "landing.dumps"
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("name", pa.string()), ("score", pa.int64())])
WHOLE = """
    -- kind: scd2
    -- key: id
    -- dump: day
    SELECT id, day, name, score FROM landing.dumps
"""
NAMES = """
    -- kind: scd2
    -- key: id
    -- updated_at: seen
    -- compare: name
    -- dump: seen
    SELECT id, max(name) AS name, max(score) AS score, CAST(day AS timestamp) AS seen
    FROM landing.dumps GROUP BY id, day
"""
FIRST = date(2024, 1, 1)


def day(number: int) -> date:
    return FIRST + timedelta(days=number)


class Dumps:
    """The table upstream, which keeps all dumps, with all that could be seen in it."""

    def __init__(self, it: Shop) -> None:
        self.it = it
        self.shown: dict[date, list[tuple[int, date, str, int]]] = {}
        self.looks: list[list[tuple[int, date, str, int]]] = []
        it.lake.pyiceberg().create_table(TABLE, SCHEMA)

    def bring(self, number: int, rows: dict[int, tuple[str, int]]) -> None:
        """A dump, or a correction of one."""
        at = day(number)
        self.shown[at] = [(id_, at, *values) for id_, values in rows.items()]
        made = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in self.shown[at]], SCHEMA)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyIceberg warns when there was nothing to delete
            self.it.lake.pyiceberg().load_table(TABLE).overwrite(made, f"day == '{at.isoformat()}'")
        self.looks.append([row for rows in self.shown.values() for row in rows])

    def forget(self, *numbers: int) -> None:
        """The input has these dumps no more."""
        table = self.it.lake.pyiceberg().load_table(TABLE)
        for number in numbers:
            if self.shown.pop(day(number), None):
                table.delete(f"day == '{day(number).isoformat()}'")
        self.looks.append([row for rows in self.shown.values() for row in rows])

    def expected(self, columns: slice = slice(None)) -> list[tuple[Any, ...]]:
        looks: list[Rows] = [[(id_, at, (name, score)) for id_, at, name, score in rows] for rows in self.looks]
        found = dumped(looks, columns)
        return sorted((each.key, *each.values, _utc(each.valid_from), _utc(each.valid_to)) for each in found)


def _utc(at: date | None) -> str:
    return datetime(at.year, at.month, at.day, tzinfo=UTC).isoformat() if at else ""


def standing(it: Shop, table: str) -> list[tuple[Any, ...]]:
    rows = it.rows(f"select id, name, score, valid_from, valid_to, is_current from {table}")
    assert all(current == (to is None) for *_, to, current in rows)
    return sorted((*values, since.isoformat(), to.isoformat() if to else "") for *values, since, to, _ in rows)


def agree(it: Shop, upstream: Dumps) -> None:
    assert standing(it, "dim.whole") == upstream.expected()
    assert standing(it, "dim.names") == upstream.expected(slice(0, 1))


LATE = [3, 4, 5, 7, 8]
FEW = (1, 3)  # a seed, and how many dumps come late
MANY = [pytest.param(seed, len(LATE), marks=pytest.mark.long) for seed in range(1, 6)]


@pytest.mark.parametrize(("seed", "late"), [FEW, *MANY])
def test_dumps_in_any_order_make_one_history(shop: MakeShop, seed: int, late: int) -> None:
    by = random.Random(seed)
    it = shop({"models/dim/whole.sql": WHOLE, "models/dim/names.sql": NAMES})
    upstream = Dumps(it)
    order = [0, 1, 2, 6, *by.sample(LATE, late)]
    for at, number in enumerate(order):
        rows = {id_: (by.choice("xy"), by.choice([1, 1, 2])) for id_ in range(12) if by.random() < 0.8}
        # Many dumps show for some keys what the dump before showed: versions must not end there.
        upstream.bring(number, {**dict.fromkeys(range(3), ("x", 1)), **rows})
        if at == 6:
            upstream.bring(by.choice(order[:5]), dict.fromkeys(range(0, 12, 2), ("z", 3)))
        if at in (3, 5, 7):
            it.run()
            agree(it, upstream)
            assert it.plan() == {}
    it.run()
    agree(it, upstream)
    it.run("--full-refresh")
    agree(it, upstream)


def test_nothing_new_in_a_dump_is_no_version_and_what_is_missing_closes(shop: MakeShop) -> None:
    it = shop({"models/dim/whole.sql": WHOLE})
    upstream = Dumps(it)
    upstream.bring(0, {1: ("x", 1), 2: ("y", 1)})
    upstream.bring(1, {1: ("x", 1), 2: ("y", 1)})
    it.run()
    upstream.bring(2, {1: ("x", 1)})
    (built,) = [event for event in it.run() if event["event"] == "built"]
    assert built["rows_read"] == 1
    assert standing(it, "dim.whole") == [
        (1, "x", 1, "2024-01-01T00:00:00+00:00", ""),
        (2, "y", 1, "2024-01-01T00:00:00+00:00", "2024-01-03T00:00:00+00:00"),
    ]
    # Where upstream keeps the newest dump alone, the versions tell what the one after a late one has shown.
    made = pa.Table.from_pylist([{"id": 1, "day": day(-1), "name": "w", "score": 1}], SCHEMA)
    it.lake.pyiceberg().load_table(TABLE).overwrite(made)
    it.run()
    assert standing(it, "dim.whole") == [
        (1, "w", 1, "2023-12-31T00:00:00+00:00", "2024-01-01T00:00:00+00:00"),
        (1, "x", 1, "2024-01-01T00:00:00+00:00", ""),
        (2, "y", 1, "2024-01-01T00:00:00+00:00", "2024-01-03T00:00:00+00:00"),
    ]

    twice = pa.Table.from_pylist([{"id": 1, "day": day(3), "name": name, "score": 1} for name in "ab"], SCHEMA)
    it.lake.pyiceberg().load_table(TABLE).append(twice)
    _, said = it.failed_run()
    assert "dim.whole has several rows of one id in one dump" in said


@pytest.mark.parametrize(
    ("seed", "late"), [(1, 4), *(pytest.param(seed, 6, marks=pytest.mark.long) for seed in range(1, 8))]
)
def test_late_dumps_find_their_place_when_the_ones_around_them_are_gone(shop: MakeShop, seed: int, late: int) -> None:
    by = random.Random(seed)
    it = shop({"models/dim/whole.sql": WHOLE})
    upstream = Dumps(it)
    order = [0, 3, 6, *by.sample([1, 2, 4, 5, 7, 8], late)]
    for at, number in enumerate(order):
        rows = {id_: (by.choice("xy"), by.choice([1, 1, 2])) for id_ in range(12) if by.random() < 0.8}
        upstream.bring(number, {**dict.fromkeys(range(3), ("x", 1)), **rows})
        if at > 1 and at % 2 == 0:
            it.run()
            assert standing(it, "dim.whole") == upstream.expected()
            upstream.forget(*by.sample(order, 5))
    it.run()
    assert standing(it, "dim.whole") == upstream.expected()
    assert it.plan() == {}


def test_what_is_not_compared_is_forgotten_with_a_dump(shop: MakeShop) -> None:
    it = shop({"models/dim/names.sql": NAMES})
    upstream = Dumps(it)
    upstream.bring(0, {1: ("x", 1), 2: ("a", 1)})
    upstream.bring(2, {1: ("x", 2), 2: ("b", 2)})
    it.run()
    upstream.forget(0, 2)
    upstream.bring(1, {1: ("x", 7), 2: ("b", 8)})  # the version of 2 begins with it
    it.run()
    assert standing(it, "dim.names") == upstream.expected(slice(0, 1))
    upstream.forget(1)
    upstream.bring(1, {1: ("y", 3), 2: ("b", 8)})  # and one of 1 would begin with the dump that nobody has
    _, said = it.failed_run()
    assert "a version begins with the one after it (seen 2024-01-03)" in said
    assert "not the others" in said
    upstream.bring(2, {1: ("x", 2), 2: ("b", 2)})
    it.run()
    assert standing(it, "dim.names") == upstream.expected(slice(0, 1))

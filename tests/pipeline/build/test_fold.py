"""The fold of a history: the definition in plain Python holds what it promises, and the fold on Spark is the same."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mere.pipeline.build.fold import AT, HERE, Fold
from mere.project.kinds import HISTORY
from tests.conftest import OpenSession
from tests.pipeline.histories import History, Rows, Timed, Version, compared, dumped, timed

keys = st.integers(1, 3)
small = st.one_of(st.none(), st.integers(0, 2))
looks = st.lists(st.dictionaries(keys, st.tuples(small, small)), max_size=8)
# Of one key: observations, each of them versions by the time that they say they hold from.
sightings = st.lists(st.dictionaries(st.integers(0, 30), st.tuples(small), max_size=2), max_size=8)


def holds(history: History, at: Any) -> dict[Any, tuple[Any, ...]]:
    found = [each for each in history if each.valid_from <= at and (each.valid_to is None or at < each.valid_to)]
    assert len({each.key for each in found}) == len(found), "two versions of a key hold at once"
    return {each.key: each.values for each in found}


def sound(history: History) -> None:
    assert all(each.valid_to is None or each.valid_from < each.valid_to for each in history)
    open_ = [each.key for each in history if each.is_current]
    assert len(open_) == len(set(open_))
    for each in history:
        holds(history, each.valid_from)


@given(looks)
def test_by_comparing_a_history_shows_what_was_observed_at_every_time(seen: list[dict[int, tuple[Any, ...]]]) -> None:
    history: History = []
    for at, here in enumerate(seen):
        history = compared(history, at, here)
        assert compared(history, at, here) == history
        sound(history)
        assert all(each.valid_to != each.valid_from for each in history)
    for at, here in enumerate(seen):
        assert holds(history, at) == here
    for one, next_ in pairwise(history):
        assert one.key != next_.key or one.valid_to != next_.valid_from or one.values != next_.values


def test_by_comparing_some_columns_a_version_keeps_what_was_seen_first() -> None:
    history = compared([], 1, {"a": (1, "x")}, slice(0, 1))
    history = compared(history, 2, {"a": (1, "y")}, slice(0, 1))
    assert history == [Version("a", (1, "x"), 1, None)]
    assert compared(history, 3, {"a": (2, "y")}, slice(0, 1)) == [
        Version("a", (1, "x"), 1, 3),
        Version("a", (2, "y"), 3, None),
    ]


def test_a_key_that_goes_is_closed_and_opens_anew() -> None:
    history = compared(compared(compared([], 1, {"a": (1,)}), 2, {}), 3, {"a": (1,)})
    assert history == [Version("a", (1,), 1, 2), Version("a", (1,), 3, None)]
    observations = [(1, [("a", 0, (1,))]), (2, []), (5, [("a", 0, (1,))])]
    assert timed(observations) == [Version("a", (1,), 0, 2), Version("a", (1,), 5, None)]
    observations = [(1, [("a", 0, (1,))]), (2, []), (5, [("a", 4, (2,))])]
    assert timed(observations) == [Version("a", (1,), 0, 2), Version("a", (2,), 4, None)]


def test_a_key_that_goes_before_its_version_begins_was_there_for_a_moment() -> None:
    assert timed([(1, [("a", 9, (1,))]), (2, [])]) == [Version("a", (1,), 9, 10)]
    assert timed([(1, [("a", 9, (1,))]), (2, []), (3, [("a", 9, (1,))])]) == [Version("a", (1,), 9, None)]


@given(st.dictionaries(st.integers(0, 30), st.tuples(small), min_size=1), st.randoms(use_true_random=False))
def test_versions_may_come_late_in_any_order(versions: dict[int, tuple[Any, ...]], by: random.Random) -> None:
    order = list(versions.items())
    by.shuffle(order)
    one = Timed()
    for at, (begun, values) in enumerate(order, 100):
        one.observe(at, {begun: values})
    begins = sorted(versions)
    assert one.history("a") == [
        Version("a", versions[begun], begun, end) for begun, end in zip(begins, [*begins[1:], None], strict=True)
    ]


dumps = st.dictionaries(st.integers(0, 9), st.dictionaries(keys, st.tuples(small), min_size=1), min_size=1)


def _rows(shown: dict[int, dict[int, tuple[Any, ...]]]) -> Rows:
    return [(key, at, values) for at, here in shown.items() for key, values in here.items()]


@given(dumps, st.randoms(use_true_random=False))
def test_dumps_may_come_in_any_order_and_be_corrected(
    shown: dict[int, dict[int, tuple[Any, ...]]], by: random.Random
) -> None:
    order = list(shown)
    by.shuffle(order)
    first = [_rows({at: {1: ("wrong",)}}) for at in order if by.random() < 0.3]
    history = dumped([*first, *(_rows({at: shown[at]}) for at in order)])
    assert history == dumped([_rows(shown)])
    sound(history)
    for at, here in shown.items():
        assert holds(history, at) == here
    for one, next_ in pairwise(history):
        assert one.key != next_.key or one.valid_to != next_.valid_from or one.values != next_.values


def test_what_is_compared_away_is_a_fact_unless_the_dumps_are_known() -> None:
    """Why `compare` beside `updated_at` is refused without `dump`: the versions alone do not tell that A was seen
    again at 3, so that nobody could say until when B held, which came late."""
    once, twice = (dumped([[("a", at, ("A",)) for at in times]]) for times in ([1], [1, 3]))
    assert once == twice
    late: Rows = [("a", 2, ("B",))]
    assert dumped([[("a", 1, ("A",))], late]) != dumped([[("a", 1, ("A",)), ("a", 3, ("A",))], late])


@given(sightings)
def test_the_rows_of_a_history_tell_all_that_the_next_observation_needs(seen: list[dict[int, tuple[Any, ...]]]) -> None:
    known, told = Timed(), Timed()
    for number, rows in enumerate(seen):
        at, here = 4 * number + 2, {begun: (begun, *values) for begun, values in rows.items()}
        known.observe(at, here)
        told.observe(at, here)
        history = known.history("a")
        sound(history)
        assert told.history("a") == history
        assert bool(here) == any(each.is_current for each in history) or not known.versions
        told.observe(at, here)
        assert told.history("a") == history, "observed twice it is the same"
        told = _told_by(history)


def _told_by(history: History) -> Timed:
    """What can be known from a table's rows, whose first value is from when they hold."""
    ends = [
        (one.valid_to, next_.valid_from if next_ else None)
        for one, next_ in zip(history, [*history[1:], None], strict=False)
        if one.valid_to is not None and (next_ is None or one.valid_to < next_.valid_from)
    ]
    return Timed({each.values[0]: each.values for each in history}, ends)


# On Spark

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
Row = tuple[int, datetime, int | None, str | None]  # key, from when it holds, and values
KEYS = 120


def moment(number: int, ticks: int = 0) -> datetime:
    return EPOCH + timedelta(seconds=number, microseconds=ticks)


def _begun(by: random.Random, now: int) -> datetime:
    """Mostly before it is observed, some of it long before, and now and then later."""
    return moment(now + by.choice([-60, -30, -20, -4, -3, -2, -1, 0, 3, 30]))


def _random_looks(by: random.Random, several: bool) -> list[tuple[datetime, list[Row]]]:
    """A table as it is observed some times: keys come, change, go, come back, and say odd things of when they hold."""
    made: list[tuple[datetime, list[Row]]] = []
    table: dict[int, list[Row]] = {}
    for number in range(9):
        for key in range(KEYS):
            if by.random() < 0.5:
                continue
            rows = {
                begun: (key, begun, by.choice([None, 0, 1]), by.choice([None, "x", "y"]))
                for begun in (_begun(by, 5 * number) for _ in range(by.randint(0, 2 if several else 1)))
            }
            table[key] = list(rows.values())
        at = moment(5 * number + 3) if number % 3 else moment(5 * number)
        made.append((at, [row for rows in table.values() for row in rows]))
    return made


def _folded(
    spark: Any, fold: Fold, looks: Sequence[tuple[datetime, list[Row]]], sizes: Sequence[int], narrow: bool
) -> list[tuple[Any, ...]]:
    """The table after all looks, folded in so many at a time; if narrow, only keys that changed are looked at."""
    values = "id INT, updated TIMESTAMP, a INT, b STRING"
    past = spark.createDataFrame([], f"{values}, valid_from TIMESTAMP, valid_to TIMESTAMP, is_current BOOLEAN")
    before: dict[int, list[Row]] = {}
    left = list(looks)
    for size in sizes:
        seen: list[tuple[Any, ...]] = []
        for at, rows in left[:size]:
            here = {key: [row for row in rows if row[0] == key] for key, *_ in rows}
            for key in here.keys() | before.keys():
                if narrow and here.get(key) == before.get(key):
                    continue
                seen += [(*row, at, True) for row in here.get(key, [])] or [(key, None, None, None, at, False)]
            before = here
        del left[:size]
        frame = spark.createDataFrame(seen, f"{values}, {AT} TIMESTAMP, {HERE} BOOLEAN")
        touched = frame.select("id").distinct()
        made = fold.histories(past.join(touched, "id", "left_semi"), frame)
        assert made.columns == ["id", "updated", "a", "b", *HISTORY]
        kept = past.join(touched, "id", "left_anti")
        past = spark.createDataFrame(kept.unionByName(made).toArrow())
    assert not left
    return sorted((tuple(row) for row in past.collect()), key=lambda row: (row[0], row[4]))


def _expected(history: History) -> list[tuple[Any, ...]]:
    rows = [
        (
            each.key,
            *each.values,
            each.valid_from.replace(tzinfo=None),
            each.valid_to and each.valid_to.replace(tzinfo=None),
        )
        for each in history
    ]
    naive = [(key, begun and begun.replace(tzinfo=None), *more) for key, begun, *more in rows]
    return sorted(((*row, row[-1] is None) for row in naive), key=lambda row: (row[0], row[4]))


@pytest.fixture
def spark(spark_on: OpenSession, tmp_path: Any) -> Any:
    from mere import Lake

    return spark_on(Lake.create(tmp_path / "lake"), "main").spark


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 8))])
def test_the_fold_on_spark_is_the_definition(spark: Any, seed: int) -> None:
    by = random.Random(seed)
    again = by.random() < 0.5  # the last observation, which changes nothing any more
    looks = _random_looks(by, several=True)
    by_time = timed([(at, [(key, begun, (begun, *values)) for key, begun, *values in rows]) for at, rows in looks])
    fold = Fold(["id"], updated_at="updated")
    sizes = by.choice([[3, 4, 2], [2, 1, 6], [5, 3, 1]])
    seen = [*looks, looks[-1]] if again else looks
    assert _folded(spark, fold, seen, [*sizes, 1] if again else sizes, by.random() < 0.5) == _expected(by_time)

    looks = _random_looks(by, several=False)
    columns = by.choice([["a", "b"], ["a"], ["updated", "A"], []])
    places = slice(1, 3) if columns == ["a", "b"] else slice(1, 2) if columns == ["a"] else slice(0, 2)
    history: History = []
    for at, rows in looks:
        here = {key: (begun, *values) for key, begun, *values in rows}
        history = compared(history, at, here, slice(None) if not columns else places)
    fold = Fold(["id"], compare=columns)
    seen = [*looks, looks[-1]] if again else looks
    assert _folded(spark, fold, seen, [*sizes, 1] if again else sizes, by.random() < 0.5) == _expected(history)

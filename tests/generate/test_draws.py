from __future__ import annotations

import numpy as np
import pytest

from mere.generate.draws import Draws, chunks

MANY = 100_000


def test_the_numbers_of_a_key_never_change() -> None:
    """They must not: files of an old version would differ from those of a new one."""
    draws = Draws(1, 2, 3)
    assert draws.below(1000, 5).tolist() == [795, 590, 204, 608, 413]
    assert draws.bell(1000, 5).tolist() == [-552, -575, 957, 59, 2070]
    assert draws.distributed((0, 10, 100_000), 5).tolist() == [4, 9, 93379, 60614, 15135]
    assert draws.weighted((1, 2, 3), 5).tolist() == [0, 2, 2, 1, 2]


def test_the_first_numbers_do_not_depend_on_how_many_follow() -> None:
    assert Draws(1).below(10**6, 10).tolist() == Draws(1).below(10**6, 1000)[:10].tolist()


def test_each_key_has_its_own_numbers() -> None:
    keys = [(1,), (2,), (1, 0), (1, 0, 1), (1, 1), (1, 1, 0, 2), (1, 2)]
    assert len({tuple(Draws(*key).below(10**9, 3).tolist()) for key in keys}) == len(keys)


@pytest.mark.parametrize("limit", [1, 7, 10_000, 2**32])
def test_below_stays_below_and_reaches_far(limit: int) -> None:
    found = Draws(5).below(limit, MANY)
    assert found.min() >= 0
    assert found.max() < limit
    assert abs(found.mean() / limit - (0.5 - 0.5 / limit)) < 0.01


def test_between_means_both_ends() -> None:
    assert set(Draws(5).between(3, 6, 1000).tolist()) == {3, 4, 5, 6}


def test_weights_say_how_often() -> None:
    counts = np.bincount(Draws(5).weighted((1, 0, 3), MANY), minlength=3)
    assert counts[1] == 0
    assert abs(counts[2] / counts[0] - 3) < 0.1


def test_quantiles_say_where() -> None:
    found = Draws(5).distributed((0, 10, 1000), MANY)
    assert abs((found < 10).mean() - 0.5) < 0.01
    assert abs((found < 505).mean() - 0.75) < 0.01
    assert found.min() == 0
    assert found.max() < 1000


def test_a_bell_is_centred_and_as_wide_as_asked() -> None:
    found = Draws(5).bell(1000, MANY)
    assert abs(found.mean()) < 10
    assert abs(found.std() - 1000) < 10


def test_copies_point_back_to_rows_that_are_there() -> None:
    flags = np.zeros(1000, dtype=bool)
    flags[[0, 5, 999]] = True
    found = Draws(5).copies(flags, 20)
    assert np.flatnonzero(found != np.arange(1000)).tolist() == [5, 999]
    assert 0 <= found[5] < 5
    assert 979 <= found[999] < 999


def test_chunks_cover_all_rows_once() -> None:
    assert chunks(7, 3) == [(0, 3), (3, 3), (6, 1)]
    assert chunks(6, 3) == [(0, 3), (3, 3)]

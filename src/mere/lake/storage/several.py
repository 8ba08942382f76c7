"""Several files at a time: what takes long is the way to where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_AT_ONCE = 10

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(act: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """What it gives for each, in their order. What fails is raised when nothing is under way any more, and what had
    not begun by then is left."""
    if len(items) < 2:
        return [act(item) for item in items]
    with ThreadPoolExecutor(min(len(items), _AT_ONCE), thread_name_prefix="mere-files") as pool:
        return list(pool.map(act, items))

"""Repeats a decision about refs when they have moved in the meantime."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mere.errors import LakeError, RefNotFound
from mere.lake.log.refs import Ref
from mere.lake.store.port import Moved, Store

T = TypeVar("T")

_ATTEMPTS = 20


def retried_while_moving(
    decide: Callable[[], T], given_up: str, remedy: str = "Try again.", error: type[LakeError] = LakeError
) -> T:
    """Bounded: somebody who writes without a pause must not keep us here for ever."""
    for _ in range(_ATTEMPTS):
        try:
            return decide()
        except Moved:
            continue
    raise error(given_up, remedy=remedy)


def standing(store: Store, name: str, gone: str) -> Ref:
    """The ref as it stands now; `gone`: what to say if there is none."""
    ref = store.ref(name)
    if ref is None:
        raise RefNotFound(gone)
    return ref

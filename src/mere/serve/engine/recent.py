"""What was used most recently, up to a total weight."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from operator import itemgetter
from typing import Generic, TypeVar

from cachetools import LRUCache

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """What nobody has asked for the longest makes room. Threads may use it together."""

    def __init__(self, most: int) -> None:
        self._kept: LRUCache[Key, tuple[Value, int]] = LRUCache(most, getsizeof=itemgetter(1))
        self._lock = threading.Lock()

    def get(self, key: Key) -> Value | None:
        with self._lock:
            found = self._kept.get(key)
            return None if found is None else found[0]

    def keep(self, key: Key, value: Value, weight: int = 1) -> None:
        with self._lock:
            self._kept.pop(key, None)  # room is made for it as if it were new
            self._kept[key] = value, weight

    @property
    def weight(self) -> float:
        """Of all."""
        return self._kept.currsize

    def __len__(self) -> int:
        return len(self._kept)

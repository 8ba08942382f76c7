"""What was used lately, up to a total weight."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """What nobody has asked for the longest makes room. Threads may use it together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.weight = 0  # of all

    def get(self, key: Key) -> Value | None:
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def keep(self, key: Key, value: Value, weight: int = 1) -> None:
        with self._lock:
            _, before = self._kept.pop(key, (None, 0))
            self._kept[key] = value, weight
            self.weight += weight - before
            while self.weight > self._most:
                _, (_, gone) = self._kept.popitem(last=False)
                self.weight -= gone

    def __len__(self) -> int:
        return len(self._kept)

"""Imports pyspark's client for Spark Connect in half the time, by leaving out pandas until somebody uses it.

Of the two seconds that the import takes, one is pandas, which the client needs for data in pandas' own classes only.
"""

from __future__ import annotations

import importlib
import sys
import threading
import types
from importlib.metadata import PackageNotFoundError, version
from typing import Any

_TYPES = "pandas.api.types"  # of which the client takes two functions when it is imported
_lock = threading.RLock()


def load() -> None:
    """Import the client, if it was not yet; whoever else is at it is waited for."""
    with _lock:
        if "pyspark.sql.connect.session" in sys.modules:
            return
        placed = _place_stand_ins() if "pandas" not in sys.modules else {}
        try:
            importlib.import_module("pyspark.sql.connect.session")
        finally:
            # Nobody else may find them: `import pandas` gets the real one from here on.
            for name, module in placed.items():
                if sys.modules.get(name) is module:
                    del sys.modules[name]


def load_ahead() -> None:
    """Import it in a thread of its own, while other work is done."""
    threading.Thread(target=load, name="mere-client", daemon=True).start()


class _StandIn(types.ModuleType):
    """What the client holds as pandas: it imports the real one when it is used."""

    def __getattr__(self, name: str) -> Any:
        if name == "DataFrame" and "pandas.core.frame" not in sys.modules:
            # The client asks whether it was given one. Nobody can have one yet.
            return _NoFrame
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_real(self.__name__), name)


class _NoFrame:
    def __new__(cls, *arguments: Any, **options: Any) -> Any:
        return _real("pandas").DataFrame(*arguments, **options)


def _place_stand_ins() -> dict[str, types.ModuleType]:
    try:
        found = version("pandas")
    except PackageNotFoundError:
        return {}  # let the client say so itself
    placed: dict[str, types.ModuleType] = {}
    for name in ("pandas", "pandas.api", _TYPES):
        module = _StandIn(name)
        module.__dict__.update(__version__=found, __path__=[])
        placed[name] = sys.modules[name] = module
    for name in ("is_datetime64_dtype", "is_timedelta64_dtype"):
        setattr(placed[_TYPES], name, _later(name))
    return placed


def _later(name: str) -> Any:
    def function(*arguments: Any) -> Any:
        return getattr(_real(_TYPES), name)(*arguments)

    return function


def _real(name: str) -> Any:
    with _lock:  # while the stand-ins are in place, they would be found
        if isinstance(sys.modules.get(name), _StandIn):
            raise ImportError(f"pyspark needs {name} already when it is imported")
        return importlib.import_module(name)

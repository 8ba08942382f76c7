"""The door of an engine for clients that mere has not started: whoever has pyspark, on this machine or on others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

PORT = 15002  # Spark's own


@dataclass(frozen=True)
class Terms:
    """Where a front listens, and for whom. Files are named, not read: what is in them changes."""

    host: str = "127.0.0.1"
    port: int = 0
    certificate: str | None = None
    key: str | None = None
    tokens: str | None = None  # the file of `mere token`
    secret: str | None = field(default=None, repr=False)  # one token for all, if there is no such file
    monitor_port: int | None = None
    # The lake whose refs are catalogs, as options of the command line; None: that of the folder's project.
    profile: str | None = None
    lake: str | None = None


@dataclass(frozen=True)
class Backend:
    """Spark's own server, which listens on this machine only."""

    address: str
    token: str = field(repr=False)
    gauges: Callable[[], dict[str, float]] = field(default=dict, repr=False)  # of its JVM, by name


class Front(Protocol):
    url: str  # without its token
    monitor: str | None  # the address of /metrics

    @property
    def used(self) -> float:
        """When somebody last asked for something, or was being served, by the monotonic clock."""
        ...

    @property
    def sessions(self) -> list[tuple[str, str]]:
        """User and id of each."""
        ...

    @property
    def running(self) -> int:
        """How many queries."""
        ...

    def drain(self, over: Callable[[], bool]) -> None:
        """Nobody new; until all that runs has ended, or `over` says that it is enough."""
        ...

    def close(self) -> None: ...


# The engine knows no server: mere/__init__.py, where the parts meet, puts it here.
opener: Callable[[Backend, Terms], Front] | None = None

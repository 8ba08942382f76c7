"""Collects problems instead of raising the first, so that a user can fix them all at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mere.errors import ConfigError, ProjectError


class Problems:
    def __init__(self) -> None:
        self.found: list[ConfigError] = []

    def __bool__(self) -> bool:
        return bool(self.found)

    def add(self, error: ConfigError) -> None:
        self.found.extend(error.problems if isinstance(error, ProjectError) else [error])

    @contextmanager
    def gather(self) -> Iterator[None]:
        """What goes wrong inside is noted, and the work goes on after it."""
        try:
            yield
        except ConfigError as error:
            self.add(error)

    def raise_any(self) -> None:
        if self.found:
            raise ProjectError(self.found)

"""Named points where a test can make a process fail, as a crash would."""

from __future__ import annotations

from collections.abc import Callable

hook: Callable[[str], None] | None = None


def point(name: str) -> None:
    if hook is not None:
        hook(name)

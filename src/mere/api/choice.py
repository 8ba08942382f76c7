"""The options of a plan or a run, named as on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TypedDict

from mere.errors import UsageError
from mere.lake.log.refs import RefLike
from mere.names import MAIN
from mere.pipeline.plan.steps import Wish
from mere.pipeline.run.request import Project, Request, selected
from mere.ranges import at_least
from mere.windows import FIRST, LAST, Span, Spans, instant

Names = str | Sequence[str]
Time = str | date  # or a datetime; without a zone it is in UTC


class RunOptions(TypedDict, total=False):
    """The keywords of `Project.run`."""

    on: RefLike | None
    full_refresh: bool
    start: Time | None
    end: Time | None
    forward_only: bool
    allow_breaking: bool
    limit_windows: int | None
    sample: str | float | None
    check: bool
    resume: str | None
    accept: Names
    if_running: str
    threads: int
    message: str | None
    id: str | None


def names_of(given: Names) -> tuple[str, ...]:
    """One name may stand without a list around it."""
    return (given,) if isinstance(given, str) else tuple(given)


@dataclass(frozen=True)
class Choice:
    """Which models, for which branch, and how."""

    select: Names = ()
    on: str = MAIN
    full_refresh: bool = False
    start: Time | None = None
    end: Time | None = None
    forward_only: bool = False
    allow_breaking: bool = False
    limit_windows: int | None = None
    sample: str | float | None = None
    check: bool = True

    def request(self, project: Project) -> Request:
        if self.full_refresh and self.forward_only:
            raise UsageError(
                "--full-refresh builds everything by the new code, --forward-only keeps what is built.",
                remedy="Leave one of them out.",
            )
        at_least(1, limit_windows=self.limit_windows)
        known = project.facts(self.on, project.lake.now())
        patterns = names_of(self.select)
        chosen = frozenset(selected(project.graph, patterns, known))
        wish = Wish(
            refresh=chosen if self.full_refresh else frozenset(),
            forward_only=chosen if self.forward_only else frozenset(),
            breaking=chosen if self.allow_breaking else frozenset(),
            only=_between(self.start, self.end),
            limit=self.limit_windows,
            sample=_share(self.sample),
        )
        return Request(on=self.on, selection=patterns, wish=wish, check=self.check)

    @property
    def decided(self) -> str | None:
        """A flag that says what is to be done; a run that is resumed was told that when it began."""
        said = {
            "--full-refresh": self.full_refresh,
            "--from": self.start,
            "--to": self.end,
            "--forward-only": self.forward_only,
            "--allow-breaking": self.allow_breaking,
            "--limit-windows": self.limit_windows,
            "--sample": self.sample,
        }
        return next((flag for flag, value in said.items() if value), None)


def _between(start: Time | None, end: Time | None) -> Spans | None:
    if start is None and end is None:
        return None
    try:
        span = Span(instant(start) if start else FIRST, instant(end) if end else LAST)
    except ValueError:
        raise UsageError(
            "--from and --to must be times in UTC.", remedy="Write for example 2024-02, 2024-02-11 or 2024-02-11T05."
        ) from None
    if span.start >= span.end:
        raise UsageError("--from must be before --to.")
    return Spans((span,))


def _share(given: str | float | None) -> float | None:
    if given is None:
        return None
    text = str(given)
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise UsageError(f"--sample {text} is not a share.", remedy="Write for example 1% or 0.01.")
    return share

"""Schedules work in dependency order: independent steps side by side, none after a failure that it depends on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Generic, TypeVar

Name = TypeVar("Name")
Result = TypeVar("Result")

_GLANCE = 0.2  # seconds: how often a waiting main thread can hear Ctrl-C


@dataclass(frozen=True)
class Failure:
    error: Exception


class Abandoned(BaseException):
    """Raised by work: something has ended all of it, and no part of it has failed."""

    def __init__(self, why: Exception) -> None:
        super().__init__(str(why))
        self.why = why


@dataclass(frozen=True)
class Unbuilt(Generic[Name]):
    """Not even tried, because this failed before."""

    because_of: Name


def execute(
    order: Sequence[Name],
    needs: Mapping[Name, Set[Name]],
    work: Callable[[Name], Result],
    threads: int,
    cancel: Callable[[], None],
    ended: Callable[[Name, Result | Failure | Unbuilt[Name]], None],
    look: Callable[[], None] = lambda: None,
) -> dict[Name, Result | Failure | Unbuilt[Name]]:
    """The outcome of each, by name; `ended` is told each of them at once.

    `look` is called while it waits, and may raise. Then, on Ctrl-C, or where work is Abandoned, `cancel` is called
    until all work has ended before the exception goes on its way.
    """
    outcomes: dict[Name, Result | Failure | Unbuilt[Name]] = {}

    def settle(name: Name, outcome: Result | Failure | Unbuilt[Name]) -> None:
        outcomes[name] = outcome
        ended(name, outcome)

    waiting = list(order)
    running: dict[Future[Result], Name] = {}
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="mere-model") as pool:
        try:
            while waiting or running:
                look()
                for name in list(waiting):
                    if broken := next((each for each in needs[name] if _is_broken(outcomes.get(each))), None):
                        root = outcomes[broken]
                        waiting.remove(name)
                        settle(name, Unbuilt(root.because_of if isinstance(root, Unbuilt) else broken))
                    elif len(running) < threads and all(each in outcomes for each in needs[name]):
                        running[pool.submit(work, name)] = name
                        waiting.remove(name)
                done, _ = wait(running, timeout=_GLANCE, return_when=FIRST_COMPLETED)
                for future in done:
                    outcome: Result | Failure = _outcome(future)
                    settle(running.pop(future), outcome)
        except BaseException:
            while running:
                cancel()
                done, _ = wait(running, timeout=_GLANCE, return_when=FIRST_COMPLETED)
                for future in done:
                    name = running.pop(future)
                    if future.exception() is None:
                        settle(name, future.result())
            raise
    return outcomes


def _is_broken(outcome: object) -> bool:
    return isinstance(outcome, Failure | Unbuilt)


def _outcome(future: Future[Result]) -> Result | Failure:
    error = future.exception()
    if error is None:
        return future.result()
    if not isinstance(error, Exception):
        raise error
    return Failure(error)

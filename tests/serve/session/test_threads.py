"""Threads that carry out jobs: each result comes back, and what was begun is waited for."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from mere.serve.session.threads import Threads


def test_results_and_errors_come_back_to_whoever_waits() -> None:
    async def ask() -> None:
        threads = Threads(2, "test")
        assert await asyncio.gather(*(threads.run(lambda at=at: at * at) for at in range(200))) == [  # type: ignore[misc]
            at * at for at in range(200)
        ]
        with pytest.raises(ZeroDivisionError):
            await threads.run(lambda: 1 // 0)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await threads.run(lambda: next(iter([])))
        threads.close()

    asyncio.run(ask())


def test_what_runs_is_waited_for_although_the_waiting_task_is_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    async def ask() -> None:
        threads = Threads(1, "test")
        for fails in (False, True):
            begun, ended = threading.Event(), threading.Event()

            def work(begun: threading.Event = begun, ended: threading.Event = ended, fails: bool = fails) -> None:
                begun.set()
                time.sleep(0.2)
                ended.set()
                if fails:
                    raise ValueError

            task = asyncio.ensure_future(threads.run(work))
            while not begun.is_set():
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert ended.is_set()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(threads.run(lambda: time.sleep(0.1)), 0.01)
        threads.close()

    asyncio.run(ask())
    assert not caplog.records


def test_what_has_begun_ends_and_what_has_not_does_not_begin() -> None:
    done: list[int] = []

    async def ask() -> None:
        threads = Threads(1, "test")
        begun = threading.Event()

        def slow() -> None:
            begun.set()
            time.sleep(0.2)
            done.append(1)

        threads.start(slow)
        threads.start(lambda: done.append(2))
        assert await asyncio.to_thread(begun.wait, 10)
        threads.close()

    asyncio.run(ask())
    assert done == [1]


def test_a_job_that_nobody_waits_for_fails_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def ask() -> None:
        threads = Threads(1, "test")
        threads.start({}.popitem)  # type: ignore[arg-type]
        await threads.run(lambda: None)
        threads.close()

    asyncio.run(ask())
    assert "KeyError" in caplog.text

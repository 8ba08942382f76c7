"""Runs one command and writes down what it cost, with all processes that it started.

    python -m bench.supervise REPORT COMMAND …

The supervisor is the subreaper of its descendants: a process that outlives its parent (a JVM, a daemon)
becomes the supervisor's child instead of init's. So all of them are waited for, and the kernel's sum of their
CPU time is exact.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil

PR_SET_CHILD_SUBREAPER = 36
LINGER = 15.0
"Seconds that descendants have to end by themselves after the command did."


def become_subreaper() -> None:
    if not sys.platform.startswith("linux"):
        raise SystemExit("The benchmarks count CPU time with Linux' subreaper; run them on Linux.")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


class Watch(threading.Thread):
    """Samples the memory of all descendants, and whether one of them is a JVM."""

    def __init__(self, interval: float = 0.05) -> None:
        super().__init__(daemon=True)
        self.peak_rss = 0
        self.jvm = False
        self._interval = interval
        self._ended = threading.Event()

    def run(self) -> None:
        me = psutil.Process()
        while not self._ended.wait(self._interval):
            rss = 0
            for process in me.children(recursive=True):
                with suppress(psutil.Error):
                    rss += process.memory_info().rss
                    self.jvm = self.jvm or process.name() == "java"
            self.peak_rss = max(self.peak_rss, rss)

    def end(self) -> None:
        self._ended.set()
        self.join()


def reap_the_rest() -> None:
    """Waits for orphans, ends those that linger, and so gets the CPU time of all into RUSAGE_CHILDREN."""
    deadline = time.monotonic() + LINGER
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid:
            continue
        if time.monotonic() > deadline:
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    process.kill()
        time.sleep(0.02)


def main(report: str, *command: str) -> int:
    become_subreaper()
    watch = Watch()
    watch.start()
    started = time.perf_counter()
    code = subprocess.Popen(command, stdin=subprocess.DEVNULL).wait()
    wall = time.perf_counter() - started
    reap_the_rest()
    watch.end()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = {
        "wall": wall,
        "cpu": usage.ru_utime + usage.ru_stime,
        # A process that came and went between two samples still left its own maximum.
        "rss": max(watch.peak_rss, usage.ru_maxrss * 1024),
        "jvm": watch.jvm,
    }
    Path(report).write_text(json.dumps(cost), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

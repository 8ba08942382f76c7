"""On what, and with which versions, figures were measured. No host name, no path."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import subprocess
from importlib.metadata import version
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent


def machine() -> dict[str, str | int]:
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "system": f"{platform.system()} {platform.machine()}",
    }


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", info.read_text(encoding="utf-8")) if info.exists() else None
    return found[1].strip() if found else platform.processor() or "unknown"


def versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("mere", "pyspark", "pyiceberg", "duckdb", "click", "rich")}
    return {
        "python": platform.python_version(),
        "java": java_version(),
        "sqlite": sqlite3.sqlite_version,
        **packages,
        "commit": said("git", "rev-parse", "--short", "HEAD") or "uncommitted",
    }


def java_version() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    found = re.search(r'version "([^"]+)"', said(java, "-version"))
    return found[1] if found else "none"


def said(*command: str) -> str:
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return "" if done.returncode else (done.stdout + done.stderr).strip()

"""Environments of other tools, for their own sides: pinned in requirements-<name>.txt and made when first needed."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from mere.config import mere_home

FOLDER = Path(__file__).resolve().parent
TOOLS = FOLDER.parent.parent / ".tools" / "bin" / "uv"


class NotInstalled(Exception):
    """A peer that cannot be had on this machine is not measured, and that is said."""


def python_of(name: str) -> Path:
    requirements = FOLDER / f"requirements-{name}.txt"
    key = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    home = mere_home() / "bench" / f"{name}-{key}"
    python, ready = home / "bin" / "python", home / ".ready"
    if not ready.exists():
        uv = shutil.which("uv") or str(TOOLS)
        _say(uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(home))
        # The list is complete: what it leaves out on purpose must not be fetched after all.
        _say(uv, "pip", "sync", "--quiet", "--require-hashes", "--python", str(python), str(requirements))
        ready.touch()
    return python


def _say(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(f"{command[0]}: {error}") from error
    if done.returncode:
        raise NotInstalled(done.stderr.strip().splitlines()[0] if done.stderr.strip() else "uv failed")

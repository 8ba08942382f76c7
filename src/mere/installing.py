"""The command that installs a package, for remedies."""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.util import find_spec


def pip_install(*what: str) -> str:
    """What to type so that the running Python has these packages: an environment made by uv has no pip."""
    python = [sys.executable]
    if find_spec("pip") is not None:
        return shlex.join([*python, "-m", "pip", "install", *what])
    if shutil.which("uv"):
        return shlex.join(["uv", "pip", "install", "--python", *python, *what])
    return f"{shlex.join([*python, '-m', 'ensurepip'])} && {shlex.join([*python, '-m', 'pip', 'install', *what])}"

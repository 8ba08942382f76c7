"""Environments of the newest versions of packages, as a user has them who installs today."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def environment(folder: Path, packages: Sequence[str]) -> Path:
    """Its Python. It has nothing of mere's own environment."""
    uv = shutil.which("uv") or str(Path(sys.prefix).parent / ".tools" / "bin" / "uv")
    python = folder / "bin" / "python"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *packages], check=True)
    installed = subprocess.run([uv, "pip", "freeze", "--python", python], check=True, capture_output=True, text=True)
    print(installed.stdout)  # shown where a test fails
    return python

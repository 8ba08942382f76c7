"""Runs the demo and draws what it printed: the picture in the README is of a real run.

python docs/images/render.py
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def style(line: str) -> str:
    match line[:1]:
        case "─":
            return "bold cyan"
        case "$":
            return "bold"
        case "✓":
            return "green"
        case "✗":
            return "red"
    return "red" if line.startswith("error:") else ""


def main() -> None:
    shown = subprocess.run(
        [sys.executable, "examples/orders_demo.py"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    console = Console(record=True, width=128, file=io.StringIO())
    for line in ["$ make demo", *shown.splitlines()]:
        console.print(Text(line, style=style(line)))
    svg = console.export_svg(title="mere")
    # Fonts come from the reader's machine, not from somebody's server.
    (HERE / "demo.svg").write_text(re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()

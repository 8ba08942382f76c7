"""The orders example from end to end: a first run, a bad row that is stopped, the fix, and what the lake says of it.

Run it with `make demo`. Every command is real, and so is what it prints. It leaves the project in demo/, to go on with.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path("demo")
ORDERS = "seeds/raw/orders.csv"


def step(text: str) -> None:
    print(f"\n── {text}", flush=True)


def mere(*arguments: str, folder: Path = FOLDER, exit_code: int = 0) -> None:
    print("$ mere", *map(quoted, arguments), flush=True)
    shown = subprocess.run(
        [sys.executable, "-m", "mere", *arguments],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    print(shown.stdout.replace(str(Path.cwd()) + os.sep, ""), end="", flush=True)
    if shown.returncode != exit_code:
        sys.exit(f"that ended with {shown.returncode}, not with {exit_code}")


def quoted(argument: str) -> str:
    """For the eye: SQL is full of single quotes."""
    return f'"{argument}"' if "'" in argument else shlex.quote(argument)


def write(*lines: str) -> None:
    print(f"$ cat >> {ORDERS}", *lines, sep="\n", flush=True)
    with (FOLDER / ORDERS).open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def replace(old: str, new: str) -> None:
    print(f"$ sed -i {shlex.quote(f's/{old}/{new}/')} {ORDERS}", flush=True)
    file = FOLDER / ORDERS
    file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def last_run() -> str:
    shown = subprocess.run(
        [sys.executable, "-m", "mere", "runs", "--json"], cwd=FOLDER, capture_output=True, check=True
    )
    return str(json.loads(shown.stdout)[0]["id"])


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    days = "from gold.daily_revenue where order_date in ('2024-02-11', '2024-02-12') order by order_date"

    step("A project: CSV files, models in SQL and PySpark, audits")
    mere("init", str(FOLDER), "--example", "orders", folder=Path())
    mere("plan")

    step("Run it: built on a branch, audited there, published in one commit (the first start of Spark fetches jars)")
    mere("run", "-m", "the first orders")
    mere("sql", days)

    step("Two orders come late, and one of them is wrong: the run stops, and main stays as it was")
    write("201,4,2024-02-11 16:30:00,-31.90,completed", "202,4,2024-02-12 09:05:00,12.60,completed")
    mere("run", exit_code=1)
    mere("sql", days)

    step("Mend the row and go on: of 14 days only the two that changed are built again")
    replace("-31.90", "31.90")
    mere("run", "--resume", last_run(), "-m", "late orders")
    mere("sql", days)

    step("What happened, and what is left to do")
    mere("log")
    mere("plan")

    print(f"\nGo on: cd {FOLDER}, read README.md; with .venv/bin/mere: mere diff main~1 main --rows, mere audit")


if __name__ == "__main__":
    main()

"""What readers other than Spark find in the lake of an example, with the writer stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

# A reader that has never heard of mere.
_WITH_PYICEBERG = """
import json, sys
from pyiceberg.catalog import load_catalog
folder, sums = sys.argv[1], json.loads(sys.argv[2])
catalog = load_catalog("main", type="sql", uri=f"sqlite:///{folder}/lake/catalog.db")
found = {}
for table, column in sums.items():
    rows = catalog.load_table(table).scan().to_arrow()[column].to_pylist()
    found[table] = [len(rows), str(sum(value for value in rows if value is not None))]
print(json.dumps(found))
"""

Totals = dict[str, tuple[int, Decimal]]


def totals_by_pyiceberg(folder: Path, sums: Mapping[str, str]) -> Totals:
    """Of each table the number of rows, and the sum of one column."""
    found = _without_java(folder, "-c", _WITH_PYICEBERG, str(folder), json.dumps(dict(sums)))
    return {table: (rows, Decimal(total)) for table, (rows, total) in found.items()}


def totals_by_duckdb(folder: Path, sums: Mapping[str, str]) -> Totals:
    parts = (
        f"select '{table}' as name, count(*) as n, sum({column})::varchar as total from {table}"
        for table, column in sums.items()
    )
    found = _without_java(folder, "-m", "mere", "sql", "--json", " union all ".join(parts))
    return {row["name"]: (row["n"], Decimal(row["total"])) for row in found}


def _without_java(folder: Path, *arguments: str) -> Any:
    environment = {**os.environ, "PATH": "", "JAVA_HOME": str(folder / "nowhere")}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)

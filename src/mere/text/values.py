"""Values of rows, as JSON has them and as text."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any


def cell(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes | dict | list | tuple):
        found = plain(value)
        return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    return "NULL" if value is None else str(value)


def plain(value: Any) -> Any:
    """A value that JSON has: exact where JSON can be, else its text."""
    if isinstance(value, Decimal):
        number = float(value)
        return number if Decimal(repr(number)) == value else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value if isinstance(value, int | str | None) else str(value)


def is_number(type_: str) -> bool:
    """A type in DuckDB's or Spark's words, in capitals."""
    return type_.endswith(("INT", "INTEGER")) or type_.split("(", maxsplit=1)[0] in ("DECIMAL", "DOUBLE", "FLOAT")

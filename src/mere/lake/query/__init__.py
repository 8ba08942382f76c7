"""Queries in SQL over the lake: DuckDB in this process, no JVM, every ref read at one commit.

`query` is the way in. `statements` reads the text, `bindings` puts the tables that it names into DuckDB, `scans` and
`views` say how one table or view is read, `errors` turns DuckDB's errors into sentences.
"""

from __future__ import annotations

from mere.lake.query.duckdb import Limits, connect
from mere.lake.query.query import Column, Result, explained, query

__all__ = ["Column", "Limits", "Result", "connect", "explained", "query"]

"""The DuckDB that all connections share: its tables, functions and memory."""

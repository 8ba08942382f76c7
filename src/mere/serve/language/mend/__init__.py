"""Expressions that mean one thing in Postgres and another in DuckDB."""

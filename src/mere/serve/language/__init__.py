"""Translates Postgres's SQL into DuckDB's."""

"""Postgres's SQL, understood and put into DuckDB's."""

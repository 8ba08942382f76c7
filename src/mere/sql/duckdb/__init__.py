"""Spark's SQL in DuckDB's words, as far as both were proven to give the same values."""

"""Spark's SQL in Trino's words, as far as both were proven to give the same values."""

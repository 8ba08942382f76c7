"""Columns of values as Postgres writes and reads them, in text and in binary."""

"""Refs in a SQLite file."""

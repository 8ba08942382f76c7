"""Refs in a Postgres database."""

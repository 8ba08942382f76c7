"""Audits: queries that return the bad rows of a table."""

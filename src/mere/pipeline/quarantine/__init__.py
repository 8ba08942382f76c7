"""Quarantines bad rows when a table is built, and retries them on request."""

"""The database that carries the refs: one port, an adapter for each database."""

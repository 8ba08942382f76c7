"""Read-only access to the lake for others: Postgres clients and Arrow Flight."""

"""Read-only access to the lake for others: the Postgres wire."""

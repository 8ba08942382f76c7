"""What Postgres means where DuckDB, given the same words, would mean something else."""

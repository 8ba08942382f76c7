"""`mere serve`: any Postgres client reads the lake; the name of the database is the ref."""

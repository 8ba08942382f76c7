"""The Postgres wire: a client's connection, from its first byte to its last."""

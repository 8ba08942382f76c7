"""Serves the lake: to Postgres clients, over Arrow Flight, as an Iceberg REST catalog, and as an HTTP API."""

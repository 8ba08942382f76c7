"""Spark for a lake: `session` opens one; the other modules find, fetch and start what it needs."""

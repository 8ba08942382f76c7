"""Spark's SQL as it is read: the type and the form of each expression, for engines to which it is translated."""

"""Portions of a source become rows of its table."""

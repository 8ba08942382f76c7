"""Keeping a lake in order: sweeping it, adopting tables, moving it, deleting it."""

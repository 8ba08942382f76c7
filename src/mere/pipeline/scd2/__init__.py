"""Histories: the versions of each key, one after the other."""

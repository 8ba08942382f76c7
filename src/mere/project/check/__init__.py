"""Finds what is wrong before anything runs."""

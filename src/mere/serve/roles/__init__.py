"""Roles as their file has them, held against the lake."""

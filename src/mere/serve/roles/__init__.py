"""Roles as their file defines them, checked against the lake."""

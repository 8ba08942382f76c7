"""Loads portions of a source into its table."""

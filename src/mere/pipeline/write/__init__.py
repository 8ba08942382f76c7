"""Writes a model's rows into its table."""

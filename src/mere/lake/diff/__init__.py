"""The differences between two states of a table, or of the lake."""

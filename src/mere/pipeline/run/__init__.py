"""A run from its request to its publish, and what it reports."""

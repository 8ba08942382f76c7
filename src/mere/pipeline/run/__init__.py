"""A run from its request to its publish, and what is told of it."""

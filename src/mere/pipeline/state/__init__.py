"""What a table says of itself: what it was built from, and how it lies."""

"""What a table records about itself: what it was built from, and how it is laid out."""

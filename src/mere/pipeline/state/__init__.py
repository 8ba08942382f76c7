"""What a table records about itself: what it was built from, and its layout."""

"""What one connection sees and does, from its statement to its rows."""

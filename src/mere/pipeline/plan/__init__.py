"""What is due, and why: facts about a ref in, steps out, nothing is touched."""

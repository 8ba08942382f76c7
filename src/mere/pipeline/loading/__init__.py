"""What comes from outside of the lake: which portions are due, the rows that are made of them, and their way in."""

"""Where a lake is, and where in it the files of each table go."""

"""Models by key: one row for each, which a run makes anew where the rows behind it changed."""

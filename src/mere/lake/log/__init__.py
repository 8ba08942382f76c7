"""The lake's history as data: refs, commits, and the runs that made them."""

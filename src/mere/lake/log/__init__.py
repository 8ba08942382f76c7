"""The words of the lake's history: refs, commits, and the runs that made them."""

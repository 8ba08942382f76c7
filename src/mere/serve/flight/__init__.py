"""Arrow Flight SQL: the lake for programs that read a lot, as Arrow batches."""

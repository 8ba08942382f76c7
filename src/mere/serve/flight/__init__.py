"""Arrow Flight SQL: the lake for programs that read much of it, as Arrow's own batches."""

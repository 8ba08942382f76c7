"""Where the columns and rows of a query come from."""

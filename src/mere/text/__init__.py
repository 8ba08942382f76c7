"""Values, numbers, times and tables as people read them."""

"""A model's rows on their way into its table."""

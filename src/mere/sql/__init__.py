"""What a query says, without running it: no lake, no models, no engine."""

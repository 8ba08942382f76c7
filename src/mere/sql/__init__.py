"""What a query says, found out without running it: no lake, no models, no engine."""

"""HTTP: authenticates each request, and frames it with an id, a log line and an answer."""

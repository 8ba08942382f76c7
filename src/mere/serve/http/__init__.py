"""HTTP: the frame in which protocols are served, each request let in by itself."""

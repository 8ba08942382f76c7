"""The lake's own verbs over HTTP: what the command line and Python do, under /api/v1."""

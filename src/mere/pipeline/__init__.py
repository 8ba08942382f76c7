"""Plan, run and audit a project: what must be built, on a branch, and published at once."""

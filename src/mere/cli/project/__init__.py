"""Commands about a project: write it, check it, plan it, run it."""

"""Plans, runs and audits a project: builds what is due on a branch, and publishes it all at once."""

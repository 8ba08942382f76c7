"""A project as the user wrote it: models, seeds and audits, read into a graph without Spark."""

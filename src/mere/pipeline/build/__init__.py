"""Builds one model on the run's branch: one module for each kind."""

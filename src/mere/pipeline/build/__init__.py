"""One model, built on the run's branch: one module for each kind."""

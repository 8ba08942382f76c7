"""The files that a user writes: one reader for each kind."""

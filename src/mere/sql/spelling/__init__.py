"""How names and texts are spelled, one dialect each."""

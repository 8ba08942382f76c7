"""How names and texts are spelt, in one dialect after the other."""

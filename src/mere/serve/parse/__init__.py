"""The text of a statement: its tokens, and its tree."""

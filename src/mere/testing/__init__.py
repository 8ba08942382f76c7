"""Unit tests of models: rows are given, the model is run on them, and its rows are compared with those expected."""

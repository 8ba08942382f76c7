"""Unit tests of models: runs a model on given rows and compares its rows with those expected."""

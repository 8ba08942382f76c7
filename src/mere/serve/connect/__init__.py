"""The settings with which tools reach a served lake, ready to paste."""

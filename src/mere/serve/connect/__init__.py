"""What a tool has to be told to reach a served lake, ready to paste."""

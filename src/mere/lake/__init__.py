"""The lake: refs over Iceberg tables, in rooms that build on each other. `lake.py` is the facade with every verb."""

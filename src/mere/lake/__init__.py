"""The lake: refs over Iceberg tables, in rooms that stand on each other. `lake.py` is the facade with every verb."""

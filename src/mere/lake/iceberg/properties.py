"""What mere keeps in the properties of tables."""

from __future__ import annotations

from mere.lake.iceberg.keys import KEY

STATE = "mere.state"  # the property in which a model keeps what it was built from
LINEAGE = "mere.lineage"  # and what the columns of a PySpark model are made of
OWN = (STATE, LINEAGE, KEY)  # what mere keeps for itself, and tells in other words

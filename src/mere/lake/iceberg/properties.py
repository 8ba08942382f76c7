"""All names that mere writes into tables: into their properties, and into the summaries of their snapshots."""

from __future__ import annotations

# Properties of tables and views.
STATE = "mere.state"  # what a model was built from
LINEAGE = "mere.lineage"  # what the columns of a PySpark model are made of
KEY = "mere.key"  # the columns that tell each row from all others
SAMPLE = "mere.sample"  # it was built from a part of the data: it may stand on any branch but main
DUMPS = "mere.dumps"  # the times of all dumps that are in a history, in microseconds since 1970
ORIGIN = "mere.adopted-from"  # where the metadata of an adopted table was
OWN = (STATE, LINEAGE, KEY)  # what mere keeps for itself, and tells in other words

# In the summary of a snapshot.
WRITTEN = "mere.model"  # a model's own rows came with it: its name
RUN = "mere.run"  # the run that wrote it
REPLACES = "mere.replaces"  # its rows come in place of others, which the snapshot before it has deleted
AUTHOR = "mere.author"  # in whose name a session wrote it
USER = "mere.user"  # and as which user of the machine

"""The key that a model declares, as its table has it: a property, written with the state."""

from __future__ import annotations

from mere.lake.iceberg.keys import as_text
from mere.lake.iceberg.metadata import Metadata
from mere.lake.iceberg.properties import KEY
from mere.project.model import Model


def key_property(model: Model, metadata: Metadata) -> dict[str, str | None]:
    """As it has to be, in the names that the columns have in the table; a table that lacks one of them has no key."""
    if KEY in model.properties:  # whoever writes it there means it
        return {}
    names = {name.casefold(): name for name in metadata.columns}
    found = [names.get(each.casefold()) for each in model.row_key]
    key = as_text(each for each in found if each) if found and all(found) else None
    return {KEY: key} if key or KEY in metadata.properties else {}

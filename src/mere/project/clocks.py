"""Days, local times and instants: what the type of a time column means.

In Spark a `timestamp` is an instant, shown in the zone of whoever looks; a `timestamp_ntz` is what a clock said.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from mere.lake.iceberg.metadata import Json


class Clock(StrEnum):
    DAY = "a date"
    LOCAL = "a local time"
    INSTANT = "an instant"


# Of each table, its columns of these types, by their names in lower case.
Clocks = Mapping[str, Clock]
_OF_SPARK = {
    "date": Clock.DAY,
    "timestamp_ntz": Clock.LOCAL,
    "timestamp": Clock.INSTANT,
    "timestamp_ltz": Clock.INSTANT,
}
_OF_ICEBERG = {"date": Clock.DAY, "timestamp": Clock.LOCAL, "timestamptz": Clock.INSTANT}


def of_types(types: Mapping[str, str | None]) -> Clocks:
    """Of types in Spark's words."""
    lowered = ((name.lower(), (type_ or "").lower()) for name, type_ in types.items())
    return {name: _OF_SPARK[type_] for name, type_ in lowered if type_ in _OF_SPARK}


def of_schema(schema: Json) -> Clocks:
    fields = ((field["name"].lower(), field["type"]) for field in schema["fields"])
    return {name: _OF_ICEBERG[type_] for name, type_ in fields if isinstance(type_, str) and type_ in _OF_ICEBERG}

"""The `defaults:` of mere.yaml: settings for models that do not set them, by schema and by folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from mere.entries import Entry, nearest
from mere.project.cache import digest_of
from mere.project.problems import Problems

# Settings that can hold for many models. The others are about one table and its columns, or about one query.
KEYS = (
    *("kind", "owner", "tags", "off"),
    *("time_column", "grain", "start", "unfinished", "batch", "null_times"),
    *("key", "key_audit", "latest_by", "updated_at", "partition_by", "sort_by", "properties"),
)
_PLACES = ("schemas", "folders")

Given = Mapping[str, Entry]  # settings by their names


@dataclass(frozen=True)
class Defaults:
    schemas: Mapping[str, tuple[Entry, Given]] = field(default_factory=dict)
    folders: Mapping[str, tuple[Entry, Given]] = field(default_factory=dict)  # by path below the project's folder

    @classmethod
    def read(cls, entry: Entry | None, problems: Problems) -> Defaults:
        if entry is None:
            return cls()
        places: dict[str, dict[str, tuple[Entry, Given]]] = {place: {} for place in _PLACES}
        with problems.gather():
            for place, value in entry.keys(*_PLACES).items():
                for name, settings in value.entries().items():
                    with problems.gather():
                        places[place][name.strip("/")] = settings, _given(settings, problems)
        return cls(**places)

    def of(self, path: PurePath, schema: str) -> Given:
        """Of a file: those of its schema, over which go those of its folders, the nearest last."""
        found = dict(self.schemas[schema][1]) if schema in self.schemas else {}
        for parent in reversed(path.parents):
            if parent.as_posix() in self.folders:
                found |= self.folders[parent.as_posix()][1]
        return found

    def __bool__(self) -> bool:
        return bool(self.schemas or self.folders)

    @property
    def digest(self) -> str:
        """Stands for the values, wherever in the file they are written."""
        values = [
            (name, [(key, value.value()) for key, value in sorted(given.items())])
            for places in (self.schemas, self.folders)
            for name, (_, given) in sorted(places.items())
        ]
        return digest_of(repr((len(self.schemas), values)).encode())

    def check_places(self, schemas: set[str], folders: set[str], problems: Problems) -> None:
        """Each must be that of a model: a name that is mistyped would have no effect."""
        for places, known, what in ((self.schemas, schemas, "schemas"), (self.folders, folders, "folders")):
            for name, (entry, _) in places.items():
                if name not in known:
                    problems.add(entry.error(f"no model is in `{name}`", nearest(name, known, what)))


def _given(entry: Entry, problems: Problems) -> Given:
    found = {}
    for key, value in entry.entries().items():
        if key in KEYS:
            found[key] = value
        else:
            remedy = f"Write it in the models themselves. These can be defaults: {', '.join(sorted(KEYS))}."
            problems.add(value.error(f"`{key}` cannot be a default", remedy))
    return found

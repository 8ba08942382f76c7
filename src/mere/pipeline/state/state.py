"""What a table was built from, kept in the table itself: the property `mere.state`, on the same branch as the data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from mere.audits.quarantine import Counts
from mere.lake.iceberg.properties import STATE as PROPERTY
from mere.pipeline.state.layout import Layout
from mere.project.kinds import Kind
from mere.project.model import Model, NullTimes
from mere.sources.source import Source
from mere.windows import NEVER, Spans, in_words, instant, stamp

__all__ = ["PROPERTY", "Point", "Points", "State", "digest", "settings_of", "shape_of"]

_VERSION = 1


@dataclass(frozen=True)
class Point:
    """Where a table or view stood when it was read."""

    id: str  # the table's UUID; of a view, a digest of its SQL
    snapshot: int | None = None
    schema: int = 0

    def to_json(self) -> list[Any]:
        return [self.id, self.snapshot, self.schema]


Points = Mapping[str, Point]  # by schema.table; a view is there with the tables that it reads


@dataclass(frozen=True)
class State:
    code: str
    shape: str  # settings that decide what is in the table: see `shape_of`
    inputs: Points
    snapshot: int | None  # the table's own, when this was written; of a view, its version
    run: str
    built: Spans = NEVER  # the windows
    pending: Spans = NEVER  # windows for which the inputs have something that is not in the table yet
    complete: bool = True  # False in older states, which had no `pending`: windows may be missing
    start: datetime | None = None  # of the model, when this was written
    now: datetime | None = None
    null_times: NullTimes | None = None  # what became of rows without a time; None: nobody looked at them
    sample: bool = False
    observed: datetime | None = None  # when a history last looked at what it follows
    # Of a build in batches that is under way: what it reads, and the windows it has written and not audited.
    towards: Points = field(default_factory=dict)
    done: Spans = NEVER
    sifted: Counts | None = None  # of a model with a quarantine: the rows of these windows, and the bad ones
    layout: Layout | None = None  # as the model declared it
    audits: tuple[str, ...] | None = None  # that it has passed; see `audits_in_state`. None: nobody knows
    # The ids of the table's schema, partitioning and order, when this was written; None: nobody knows.
    form: tuple[int, ...] | None = None
    # Of an append model: up to where rows of its input that are not just new are left out, as the user has said.
    accepted: Points = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)  # of a source: see `sources.meaning`

    def to_json(self) -> str:
        raw = {
            "version": _VERSION,
            "code": self.code,
            "shape": self.shape,
            "inputs": {name: point.to_json() for name, point in sorted(self.inputs.items())},
            "snapshot": self.snapshot,
            "run": self.run,
            "built": self.built.to_json(),
            "pending": self.pending.to_json(),
            "complete": self.complete,
            "start": stamp(self.start) if self.start else None,
            "now": stamp(self.now) if self.now else None,
            "null_times": self.null_times,
            "sample": self.sample,
            "observed": self.observed.isoformat() if self.observed else None,
            "towards": {name: point.to_json() for name, point in sorted(self.towards.items())},
            "done": self.done.to_json(),
            "sifted": self.sifted.to_json() if self.sifted else None,
            "layout": self.layout.to_json() if self.layout else None,
            "form": self.form,
            "accepted": {name: point.to_json() for name, point in sorted(self.accepted.items())},
            "settings": dict(self.settings),
            "audits": " ".join(self.audits) if self.audits is not None else None,
        }
        return orjson.dumps({name: value for name, value in raw.items() if value not in (None, [], {}, False)}).decode()

    @classmethod
    def from_json(cls, text: str) -> State | None:
        """None if it is not one that this version of mere can read."""
        try:
            raw = orjson.loads(text)
            if raw["version"] != _VERSION:
                return None
            return cls(
                code=raw["code"],
                shape=raw["shape"].partition("; partitioned by ")[0],  # which was once part of it
                inputs=_points(raw.get("inputs", {})),
                snapshot=raw.get("snapshot"),
                run=raw["run"],
                built=Spans.from_json(raw.get("built", [])),
                pending=Spans.from_json(raw.get("pending", [])),
                complete=raw.get("complete", False),
                start=instant(raw["start"]) if raw.get("start") else None,
                now=instant(raw["now"]) if raw.get("now") else None,
                null_times=NullTimes(raw["null_times"]) if raw.get("null_times") else None,
                sample=raw.get("sample", False),
                observed=instant(raw["observed"]) if raw.get("observed") else None,
                towards=_points(raw.get("towards", {})),
                done=Spans.from_json(raw.get("done", [])),
                sifted=Counts.from_json(raw["sifted"]) if raw.get("sifted") else None,
                layout=Layout.from_json(raw["layout"]) if raw.get("layout") else None,
                form=tuple(raw["form"]) if raw.get("form") else None,
                accepted=_points(raw.get("accepted", {})),
                settings=raw.get("settings", {}),
                audits=tuple(raw["audits"].split()) if "audits" in raw else None,
            )
        except (ValueError, LookupError, TypeError, AttributeError):
            return None


def _points(raw: Mapping[str, list[Any]]) -> dict[str, Point]:
    return {name: Point(*values) for name, values in raw.items()}


def shape_of(model: Model) -> str:
    """The settings that change what is in the table, in words that a plan can show."""
    by_time = f" by {model.time.grain} of {model.time.column}" if model.time else ""
    of_kind = _SHAPES[model.kind](model) if model.kind in _SHAPES else ""
    inputs = [f"new rows of {each.table}" for each in model.inputs if each.new_rows]
    context = [f"looks {in_words(model.time.context)} back"] if model.time and model.time.context else []
    inputs += [f"changes of {each.table}" for each in model.inputs if each.changes]
    if isinstance(model.body, Source):
        return f"{model.kind} of {type(model.body.feed).__name__.lower()}"
    return "; ".join([f"{model.kind}{by_time}{of_kind}", *context, *inputs])


def settings_of(model: Model) -> Mapping[str, str]:
    return model.body.settings if isinstance(model.body, Source) else {}


def _by_key(model: Model) -> str:
    latest = f", the latest by {model.latest_by}" if model.latest_by else ""
    return f" by {', '.join(model.key)}{latest}"


def _versions(model: Model) -> str:
    """How the versions of a history are told apart."""
    comparing = f"comparing {', '.join(model.compare) or 'all columns'}"
    by = f"dumps of {model.dump}, {comparing}" if model.dump else model.updated_at or comparing
    return f" of {', '.join(model.key)} by {by}"


_SHAPES = {Kind.MERGE: _by_key, Kind.SCD2: _versions}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]

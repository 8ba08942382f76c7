"""What the steps of a plan will do to the tables that later steps read, as far as it is known in advance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mere.pipeline.plan.evolution import keeps_columns
from mere.pipeline.plan.steps import Action, Facts, Step
from mere.sources.source import Files, OnChange, Source
from mere.windows import Spans


@dataclass
class Effects(Mapping[str, Spans | None]):
    """The tables that will change, and where; None: anywhere."""

    _spans: dict[str, Spans | None] = field(default_factory=dict)
    columns: set[str] = field(default_factory=set)  # tables that may have other columns then
    exchanged: dict[str, str] = field(default_factory=dict)  # tables that lose rows, and why

    def __getitem__(self, table: str) -> Spans | None:
        return self._spans[table]

    def __iter__(self) -> Iterator[str]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, step: Step, spans: Spans | None, facts: Facts, *, same_code: bool) -> None:
        """`same_code`: whether the table was built by the code that the model has now."""
        model = step.model
        if not step.builds or keeps_columns(step):
            return
        self._spans |= dict.fromkeys(map(str, model.writes), spans)
        if step.timeless and model.quarantines:
            self._spans[str(model.name.quarantine)] = None
        given = {name for each in model.inputs for name in (str(each.table), *facts.points(each.table))}
        if step.afresh or step.action is Action.ALTER or not same_code or given & self.columns:
            self.columns.add(str(model))
        if changed := _changed_files(step, facts):
            files = f"{changed[0]} is" if len(changed) == 1 else f"{len(changed):,} files are"
            self.exchanged[str(model)] = f"{files} not what was loaded: rows of {model} will be replaced"


def _changed_files(step: Step, facts: Facts) -> list[str]:
    """That replace rows which were loaded of them."""
    feed = step.model.body.feed if isinstance(step.model.body, Source) else None
    if step.action is not Action.LOAD or not isinstance(feed, Files) or feed.on_change is not OnChange.REPLACE:
        return []
    loaded = facts.loaded(step.model.name)
    known = ((each, loaded.get(each.name)) for each in step.portions)
    return [each.name for each, old in known if old and old.rows and old.version != each.version]

"""The models, and which reads which."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property

from mere.config import Whereabouts
from mere.errors import ConfigError, UsageError
from mere.names import TableName, near
from mere.project.model import Model
from mere.project.problems import Problems
from mere.sources.meaning import meaning, settings_of
from mere.sources.source import Database, Files, Rest, Source

CHANGED = "changed"
_TAG, _OWNER = "tag:", "owner:"
_SELECT_RULE = (
    "Select by name (gold.revenue), glob ('gold.*'), tag:NAME, owner:NAME or changed; +name adds what is upstream,"
    " name+ what is downstream."
)

_Following = Callable[[TableName], Iterable[TableName]]


@dataclass(frozen=True)
class Graph:
    models: Mapping[TableName, Model]  # each after the models that it reads

    @classmethod
    def of(cls, models: Iterable[Model]) -> Graph:
        """In dependency order; a ProjectError if two have one name or there is a cycle."""
        problems = Problems()
        named: dict[TableName, Model] = {}
        for model in sorted(models, key=lambda each: (each.name, each.file, each.body.line)):
            if model.name in named:
                problems.add(_twice(named[model.name], model))
            else:
                named[model.name] = model
        for model in named.values():
            for error in _new_rows_of_views(model, named):
                problems.add(error)
        named = {name: _knowing_updates(model, named) for name, model in named.items()}
        ordered = _ordered(named)
        left = {name: model for name, model in named.items() if name not in ordered}
        for path in _cycles(left):
            problems.add(_cycle(path, named))
        problems.raise_any()
        return cls(ordered)

    def placed(self, where: Mapping[str, Whereabouts]) -> Graph:
        """With the sources where a profile says that they are."""
        models = dict(self.models)
        for name, place in where.items():
            model = next((each for each in models.values() if str(each.name) == name), None)
            if model is None or not isinstance(model.body, Source):
                known = [str(each) for each, of in models.items() if isinstance(of.body, Source)]
                raise ConfigError(f"there is no source {name}.{near(name, known)}", file=place.file, line=place.line)
            feed = model.body.feed
            if isinstance(feed, Files):
                feed = replace(feed, location=place.location, s3=place.s3)
            elif isinstance(feed, Rest | Database):
                feed = replace(feed, url=place.location)
            else:
                raise ConfigError(f"{name} is a function, whose place is in its code", file=place.file, line=place.line)
            body = replace(model.body, feed=feed)
            if isinstance(feed, Files):  # the pattern may be another
                said = settings_of(body)
                body = replace(body, code=meaning(said), settings=said)
            models[model.name] = replace(model, body=body)
        return Graph(models)

    @cached_property
    def externals(self) -> tuple[TableName, ...]:
        """Tables that are read and that no model makes."""
        read = {each.table for model in self.models.values() for each in model.inputs}
        return tuple(sorted(read - self.models.keys()))

    @cached_property
    def _readers(self) -> Mapping[TableName, tuple[TableName, ...]]:
        found: dict[TableName, list[TableName]] = {}
        for model in self.models.values():
            for each in model.inputs:
                found.setdefault(each.table, []).append(model.name)
        return {table: tuple(readers) for table, readers in found.items()}

    def maker(self, table: TableName) -> TableName | None:
        """The model whose build makes a table: the table itself, or a companion of one; None if no model does."""
        return maker_of(table, self.models)

    def inputs_of(self, name: TableName) -> tuple[TableName, ...]:
        return tuple(each.table for each in self.models[name].inputs)

    def readers_of(self, name: TableName) -> tuple[TableName, ...]:
        """The models that read a table, external or not, in dependency order."""
        return self._readers.get(name, ())

    def upstream(self, names: Iterable[TableName]) -> set[TableName]:
        """Models that these stand on, directly or not, and themselves."""
        return self._reach(names, lambda name: filter(None, map(self.maker, self.inputs_of(name))))

    def downstream(self, names: Iterable[TableName]) -> set[TableName]:
        def readers(name: TableName) -> Iterator[TableName]:
            return (reader for table in (name, *name.companions) for reader in self.readers_of(table))

        return self._reach(names, readers)

    def _reach(self, names: Iterable[TableName], following: _Following) -> set[TableName]:
        found: set[TableName] = set()
        left = list(names)
        while left:
            name = left.pop()
            if name in self.models and name not in found:
                found.add(name)
                left.extend(following(name))
        return found

    def select(self, patterns: Iterable[str], changed: Collection[TableName] | None = None) -> set[TableName]:
        """The models that any of the patterns names; all of them if there is no pattern.

        `gold.revenue`, `gold.*`, `tag:nightly`, `owner:ann`, `changed` (those that the caller knows to have changed);
        `+` before a pattern adds everything upstream, after it everything downstream.
        """
        given = list(patterns)
        if not given:
            return set(self.models)
        return set().union(*(self._select(pattern, changed) for pattern in given))

    def _select(self, pattern: str, changed: Collection[TableName] | None) -> set[TableName]:
        core = pattern.removeprefix("+").removesuffix("+")
        if core == CHANGED:
            if changed is None:
                raise UsageError("What has changed is known only to plan and run.", remedy=_SELECT_RULE)
            matched = {name for name in changed if name in self.models}
        elif core.startswith(_TAG):
            tag = core.removeprefix(_TAG)
            matched = {name for name, model in self.models.items() if tag in model.tags}
        elif core.startswith(_OWNER):
            owner = core.removeprefix(_OWNER)
            matched = {name for name, model in self.models.items() if model.owner == owner}
        else:
            matched = {name for name in self.models if fnmatchcase(str(name), core)}
        if not matched and core != CHANGED:
            raise UsageError(f"No model matches {pattern}.{near(core, self._known())}", remedy=_SELECT_RULE)
        up = self.upstream(matched) if pattern.startswith("+") else set()
        down = self.downstream(matched) if pattern.endswith("+") else set()
        return matched | up | down

    def _known(self) -> list[str]:
        tags = {f"{_TAG}{tag}" for model in self.models.values() for tag in model.tags}
        owners = {f"{_OWNER}{model.owner}" for model in self.models.values() if model.owner}
        return [*map(str, self.models), *sorted(tags), *sorted(owners)]


def _knowing_updates(model: Model, models: Mapping[TableName, Model]) -> Model:
    """A model that takes changes is told which of them are updates, where a table has a key."""
    if not any(each.changes for each in model.inputs):
        return model
    keys = {name: each.key for name, each in models.items()}
    inputs = (replace(each, updates_by=keys.get(each.table, ())) if each.changes else each for each in model.inputs)
    return replace(model, inputs=tuple(inputs))


def _twice(first: Model, second: Model) -> ConfigError:
    return ConfigError(
        f"there are two models {first.name}: the other is in {first.file}:{first.body.line}",
        remedy="Rename or delete one of them.",
        file=second.file,
        line=second.body.line,
    )


def _new_rows_of_views(model: Model, models: Mapping[TableName, Model]) -> Iterator[ConfigError]:
    for each in model.inputs:
        if (each.new_rows or each.changes) and each.table in models and not models[each.table].kind.rules.stored:
            yield ConfigError(
                f"{each.table} is a view: which of its rows {'changed' if each.changes else 'are new'} cannot be known",
                remedy="Read the table behind it, or write `kind: full`.",
                file=model.file,
                line=each.line,
            )


def maker_of(table: TableName, models: Mapping[TableName, Model]) -> TableName | None:
    """See `Graph.maker`."""
    if table in models:
        return table
    of = table.owner
    return of if of is not None and of in models and table in models[of].writes else None


def _ordered(models: Mapping[TableName, Model]) -> dict[TableName, Model]:
    """By dependency, then by name; those in a cycle, or behind one, are left out."""
    made = {each.table: maker_of(each.table, models) for model in models.values() for each in model.inputs}
    waits = {name: {of for each in model.inputs if (of := made[each.table])} for name, model in models.items()}
    readers: dict[TableName, list[TableName]] = {}
    for name, tables in waits.items():
        for table in tables:
            readers.setdefault(table, []).append(name)
    ready = [name for name, tables in waits.items() if not tables]
    heapq.heapify(ready)
    ordered = {}
    while ready:
        name = heapq.heappop(ready)
        ordered[name] = models[name]
        for reader in readers.get(name, []):
            waits[reader].discard(name)
            if not waits[reader]:
                heapq.heappush(ready, reader)
    return ordered


def _cycles(models: Mapping[TableName, Model]) -> Iterable[list[TableName]]:
    """One path around each knot."""
    seen: set[TableName] = set()
    for start in models:
        path: list[TableName] = []
        name: TableName | None = start
        while name is not None and name not in seen:
            seen.add(name)
            path.append(name)
            # Each of these waits for another of these, so that the way back always leads into a cycle.
            makers = (maker_of(each.table, models) for each in models[name].inputs)
            name = next((each for each in makers if each in models), None)
        if name in path:
            yield path[path.index(name) :]


def _cycle(path: list[TableName], models: Mapping[TableName, Model]) -> ConfigError:
    # From the first by name, so that the message is the same whichever way one came.
    at = path.index(min(path))
    around = [*path[at:], *path[: at + 1]]
    model = models[around[0]]
    read = next(each for each in model.inputs if maker_of(each.table, models) == around[1])
    shown = " ← ".join(map(str, around))
    message = f"{model} reads itself" if len(path) == 1 else f"the models read each other in a circle: {shown}"
    return ConfigError(message, remedy="Remove one of the reads.", file=model.file, line=read.line)

"""The columns of a table after a load, and which column of a file becomes which of them: how names are matched, and
what happens to columns that are new, missing or of another type.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from mere.errors import RunFailed
from mere.names import near
from mere.pipeline.load.formats.casts import How, how
from mere.pipeline.state.columns import Type, holds
from mere.project.model import Model
from mere.sources.source import OnNewColumn, Source

_NOT_OF_A_NAME = re.compile(r"[^\w]+")


def column_name(name: str, position: int) -> str:
    """What a column of the data is called in the table: in lower case; what is neither letter, digit nor _ becomes a _,
    a run of it a single one, and at the ends nothing; a _ comes before a leading digit. `position`: from 1 on."""
    words = _NOT_OF_A_NAME.sub(" ", unicodedata.normalize("NFC", name.lower())).strip()
    made = words.replace(" ", "_")
    if not made:
        return f"column_{position}"
    return f"_{made}" if made[0].isdigit() else made


@dataclass(frozen=True)
class Seen:
    """A column as a file has it."""

    name: str
    type: Type | None = "string"  # None: it has no value that would tell

    @property
    def words(self) -> str:
        return f"{self.name} {self.type or 'void'}"


Shape = tuple[Seen, ...]


def to_json(shape: Shape) -> str:
    return json.dumps({each.name: str(each.type or "void") for each in shape}, ensure_ascii=False)


@dataclass(frozen=True)
class Target:
    """A column of the table as it is after the load."""

    name: str
    type: Type
    sql: str  # what values are cast to: a tinyint that was declared is an int in the table
    declared: bool = False
    format: str | None = None
    stands: bool = False  # it is in the table already

    @property
    def words(self) -> str:
        return f"{self.name} {self.type}"


def matched(model: Model, source: Source, portion: str, names: Sequence[str]) -> dict[str, int]:
    """Which column of the file becomes which of the table."""
    named: dict[str, int] = {}
    for column, declared in source.columns.items():
        if declared.source is not None:
            found = _position(declared.source, names)
            if found is not None and found not in named.values():
                named[column] = found
    spoken_for = set(named.values())
    declared_names = {column.casefold(): column for column in source.columns}
    for position, name in enumerate(names):
        if position in spoken_for:
            continue
        column = name if source.keep_names and name.strip() else column_name(name, position + 1)
        column = declared_names.get(name.casefold(), declared_names.get(column.casefold(), column))
        other = next((each for each in named if each.casefold() == column.casefold()), None)
        if other is not None:
            raise RunFailed(
                f"{model.file}: {portion} has two columns for {column}: {names[named[other]]!r} and {name!r}.",
                remedy=_other_name(name),
            )
        named[column] = position
    return named


def _other_name(name: str) -> str:
    return f"Rename it: `columns: {{another_name: {{from: {json.dumps(name, ensure_ascii=False)}}}}}`."


def _position(wanted: str, names: Sequence[str]) -> int | None:
    if wanted in names:
        return names.index(wanted)
    folded = [name.casefold() for name in names]
    return folded.index(wanted.casefold()) if folded.count(wanted.casefold()) == 1 else None


class Needs(Enum):
    """Which columns data must have, if they are not optional."""

    ALL = auto()  # those that are declared, and those that all data had so far
    DECLARED = auto()
    NOTHING = auto()


@dataclass
class Agreement:
    """The columns of the table, on which the files of a load agree one after the other, as they would if each were
    loaded alone."""

    model: Model
    source: Source
    types: Mapping[str, Type]  # that are declared, by the name of the column
    table: Sequence[tuple[str, Type]]  # the columns that stand there
    reserved: Mapping[str, str]  # names that no column of a file may have, and for what they are
    needs: Needs
    text: bool  # every value is text, which can become a value of any type
    targets: dict[str, Target] = field(default_factory=dict)  # by the name without regard to case
    _always: set[str] | None = None  # the columns that every file had so far
    _open: set[str] = field(default_factory=set)  # new columns of text, whose types their values tell
    _first: bool = True

    def __post_init__(self) -> None:
        for name, kind in self.table:
            if name.casefold() not in self.reserved:
                self.targets[name.casefold()] = replace(self.target_for(name, kind), stands=True)
        self._first = not self.targets and not self.source.columns

    @property
    def names(self) -> list[str]:
        """Of the columns that are known before any file is."""
        return [*self.source.columns, *(target.name for target in self.targets.values())]

    def remember(self, columns: str) -> None:
        """What the ledger says of a file that was loaded before."""
        names = list(json.loads(columns)) if columns else []
        if names:
            self._note(matched(self.model, self.source, "", names))

    def take(self, portion: str, shape: Shape) -> dict[str, int]:
        """Which column of this file becomes which of the table; a RunFailed, if it does not fit."""
        named = matched(self.model, self.source, portion, [each.name for each in shape])
        self._refuse_reserved(portion, named, shape)
        before, missing = dict(self.targets), self._missing(named)
        new, retyped = [], []
        for column, position in named.items():
            seen = shape[position]
            verdict = self._judge(column, seen)
            if verdict == "new":
                new.append(seen)
            elif verdict == "retyped":
                retyped.append((self.targets[column.casefold()], seen))
        if missing or new or retyped:
            self.targets = before
            raise drifted(self, portion, shape, named, missing, new, retyped)
        self._note(named)
        self._first = False
        known = ((self.targets.get(name.casefold()), position) for name, position in named.items())
        return {target.name: position for target, position in known if target is not None}

    @property
    def open(self) -> list[str]:
        """The new columns whose types are to be told by their values."""
        return [self.targets[folded].name for folded in self.targets if folded in self._open]

    def settle(self, kinds: Mapping[str, Type | None]) -> None:
        """The types of the new columns. One without a value waits for a file that says of which type it is."""
        for name, kind in kinds.items():
            self._open.discard(name.casefold())
            if kind is None:
                del self.targets[name.casefold()]
            else:
                self.targets[name.casefold()] = self.target_for(name, kind)

    def finish(self) -> list[Target]:
        """The targets, with those that are declared and optional, and that no file has."""
        for name in self.source.columns:
            if name.casefold() not in self.targets and (name in self.types or self.text):
                self.targets[name.casefold()] = self.target_for(name, "string")
        return list(self.targets.values())

    def _note(self, named: Iterable[str]) -> None:
        folded = {name.casefold() for name in named}
        self._always = folded if self._always is None else self._always & folded

    def target_for(self, name: str, kind: Type) -> Target:
        declared = next((each for each in self.source.columns if each.casefold() == name.casefold()), None)
        if declared is None:
            return Target(name, kind, str(kind))
        about = self.source.columns[declared]
        if about.type is None:
            return Target(declared, kind, str(kind), format=about.format)
        return Target(declared, self.types[declared], about.type, declared=True, format=about.format)

    def _missing(self, named: Mapping[str, int]) -> list[str]:
        there = {name.casefold() for name in named}
        optional = {name.casefold() for name, each in self.source.columns.items() if each.optional}
        needed = {name.casefold(): name for name in self.source.columns} if self.needs is not Needs.NOTHING else {}
        if self.needs is Needs.ALL:
            needed |= {name: self.targets[name].name for name in self._always or () if name in self.targets}
        return [name for folded, name in needed.items() if folded not in there | optional]

    def _judge(self, column: str, seen: Seen) -> str:
        folded = column.casefold()
        target = self.targets.get(folded)
        if target is None:
            known = any(each.casefold() == folded for each in self.source.columns)
            if not known and not self._first and self.source.on_new_column is not OnNewColumn.ADD:
                return "new" if self.source.on_new_column is OnNewColumn.FAIL else "ignored"
            if seen.type is None and column not in self.types:
                return "ignored"  # until a file has values, and says of which type
            target = self.targets[folded] = self.target_for(column, seen.type or "string")
            if self.text and not known and not self._first:
                self._open.add(folded)
        if self.text or seen.type is None:
            return "good"
        if not target.declared and self._widens(target, seen.type):
            self.targets[folded] = replace(target, type=seen.type, sql=str(seen.type))
            return "good"
        return "good" if how(seen.type, target.type, target.declared) else "retyped"

    @staticmethod
    def _widens(target: Target, kind: Type) -> bool:
        """Whether the column can be of the type of this file from now on, and hold what it holds."""
        return holds(kind, target.type) or (not target.stands and how(target.type, kind, False) is How.CAST)

    def _refuse_reserved(self, portion: str, named: Mapping[str, int], shape: Shape) -> None:
        for column, position in named.items():
            if purpose := self.reserved.get(column.casefold()):
                name = shape[position].name
                raise RunFailed(
                    f"{self.model.file}: {portion} has a column {name!r}, and {column} is {purpose}.",
                    remedy=_other_name(name),
                )


def drifted(
    agreement: Agreement,
    portion: str,
    shape: Shape,
    named: Mapping[str, int],
    missing: Sequence[str],
    new: Sequence[Seen],
    retyped: Sequence[tuple[Target, Seen]],
) -> RunFailed:
    """With both schemas side by side, and what to do about it."""
    model = agreement.model
    words = [f"{name} is missing" for name in missing]
    words += [f"{target.name} is {seen.type}, not {target.type}" for target, seen in retyped]
    words += [f"{seen.name} is new" for seen in new]
    remedies = []
    if missing:
        unused = [seen.name for position, seen in enumerate(shape) if not _is_known(agreement, named, position)]
        hint = near(missing[0], unused).strip()
        remedies += [hint] if hint else []
        remedies.append(f"If files may lack it: `columns: {{{missing[0]}: {{optional: true}}}}`.")
    if retyped:
        remedies.append("Fix the file, or load it with a source of its own: these types have nothing in common.")
    if new:
        remedies.append("To take new columns into the table: `on_new_column: add`; to leave them out: `ignore`.")
    return RunFailed(
        f"{model.file}: {portion} does not have the columns of {model}: {'; '.join(words)}. Nothing was loaded.\n"
        + side_by_side(agreement, portion, shape, named),
        remedy="\n".join(remedies),
    )


def _is_known(agreement: Agreement, named: Mapping[str, int], position: int) -> bool:
    column = next(name for name, at in named.items() if at == position).casefold()
    return column in agreement.targets or any(each.casefold() == column for each in agreement.source.columns)


def side_by_side(agreement: Agreement, portion: str, shape: Shape, named: Mapping[str, int]) -> str:
    """Left what the table or the declaration has, right what the file has; between them what is not the same."""
    by_name = {name.casefold(): shape[position] for name, position in named.items()}
    left: dict[str, Target] = dict(agreement.targets)
    for name in agreement.source.columns:
        left.setdefault(name.casefold(), agreement.target_for(name, "string"))
    rows = [(str(agreement.model), " ", portion)]
    for folded, target in left.items():
        seen = by_name.pop(folded, None)
        same = seen is not None and (
            agreement.text or seen.type is None or how(seen.type, target.type, target.declared) is not None
        )
        rows.append((target.words, " " if same else "-" if seen is None else "≠", seen.words if seen else ""))
    rows += [("", "+", seen.words) for seen in by_name.values()]
    width = max(len(row[0]) for row in rows)
    return "\n".join(f"  {each:{width}}  {mark} {other}".rstrip() for each, mark, other in rows)

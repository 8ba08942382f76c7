"""How a model reads its inputs: what was found and what was declared, combined by the rules of its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mere.audits.audit import Audit
from mere.entries import Entry
from mere.errors import ConfigError
from mere.names import TableName, near
from mere.project.files.settings import DeclaredKey, Place, Settings
from mere.project.kinds import Kind
from mere.project.model import Input
from mere.project.problems import Problems

# How a user writes that an input is read in such a way: in a header, or as a parameter's default.
Written = Callable[[TableName, str, str], str]
NO_DOUBTS: Mapping[TableName, str] = {}


def in_header(table: TableName, setting: str, value: str) -> str:
    return f"`inputs: {{{table}: {{{setting}: {value}}}}}`"


def in_default(table: TableName, setting: str, value: str) -> str:
    literal = value.capitalize() if value in ("true", "false") else f'"{value}"'
    return f'`table("{table}", {setting}={literal})`'


def with_declared(
    found: Iterable[Input], declared: Mapping[TableName, Place], problems: Problems, key: Sequence[str] = ()
) -> list[Input]:
    """What the user declares goes before what the query tells. `key`: the model's."""
    inputs = {each.table: each for each in found}
    for table, place in declared.items():
        if table not in inputs:
            known = [str(each) for each in inputs]
            problems.add(
                place.entry.error(f"`{table}` is not read by the query.{near(str(table), known)}", "Remove it.")
            )
            continue
        time = place.time or (None if place.on_change else inputs[table].time)
        by_key = () if place.on_change else inputs[table].key
        with problems.gather():
            by_key = key_of(place.key, key, place.entry) or by_key
        inputs[table] = replace(
            inputs[table], time=time, on_change=place.on_change, new_rows=place.new_rows, key=by_key
        )
    return list(inputs.values())


def key_of(given: DeclaredKey, key: Sequence[str], entry: Entry) -> tuple[tuple[str, str], ...]:
    """What is declared for an input, by the columns of the model's key."""
    if isinstance(given, Mapping):
        for name in given:
            if name not in key:
                raise entry.error(f"`{name}` is not in the model's key.{near(name, key)}", "Name a column of `key`.")
        return tuple((name, given[name]) for name in key if name in given)
    if given and len(given) != len(key):
        raise entry.error(
            f"the model's key has {len(key)} columns, and {len(given)} are named here",
            "Name them in the order of `key`, or those that exist by name: `key: {order_id: id}`.",
        )
    return tuple(zip(key, given, strict=True)) if given else ()


def with_lookups(found: Iterable[Input], audits: Iterable[Audit]) -> list[Input]:
    """And the tables in which rules that quarantine look for keys: if they change, other rows are bad."""
    inputs = {each.table: each for each in found}
    for audit in audits:
        for table in audit.reads if audit.quarantine else ():
            inputs.setdefault(table, Input(table, audit.line, lookup=True))
    return list(inputs.values())


def refuse_lookups_in_part(inputs: Iterable[Input], audits: Iterable[Audit], problems: Problems) -> None:
    """What a row points to may come for another window or key than its own: then it would not be built again."""
    in_part = {each.table for each in inputs if each.time or each.key}
    for audit in audits:
        if audit.quarantine and (of := in_part.intersection(audit.reads)):
            problems.add(
                ConfigError(
                    f"{audit} cannot quarantine: the model does not read {min(of)} whole, so it would miss"
                    " what arrives there later",
                    remedy="Leave out `quarantine`: then the rule checks the whole table.",
                    file=audit.file,
                    line=audit.line,
                )
            )


def refuse_latest_of_changes(model: Settings, inputs: Iterable[Input], file: str, problems: Problems) -> None:
    """The row of a key that counts is chosen among those that came and the one in the table. One in quarantine is not
    asked, so that the key could be in both."""
    if "latest_by" not in model.fields or not any(audit.quarantine for audit in model.fields["audits"]):
        return
    for each in inputs:
        if each.changes:
            problems.add(
                ConfigError(
                    f"changes of {each.table} cannot be taken by `latest_by` while a rule puts rows aside: those would"
                    " not compete with the rows that come",
                    remedy="Read the table with `table(…)`.",
                    file=file,
                    line=each.line,
                )
            )


@dataclass(frozen=True)
class _Reader:
    """The model that reads the inputs: where it stands, and what is told to its author."""

    file: str
    line: int
    written: Written
    problems: Problems
    doubts: Mapping[TableName, str]

    def problem(self, message: str, remedy: str, line: int | None = None) -> None:
        self.problems.add(ConfigError(message, remedy=remedy, file=self.file, line=line or self.line))


def complete(
    kind: Kind,
    inputs: list[Input],
    file: str,
    line: int,
    written: Written,
    problems: Problems,
    doubts: Mapping[TableName, str] = NO_DOUBTS,
) -> tuple[Input, ...]:
    """The inputs by the rules of the kind; `line` is where the model starts. `doubts`: why a time was not found."""
    model = _Reader(file, line, written, problems, doubts)
    for each in inputs:
        for setting in ("new_rows", "time", "on_change", "key"):
            if getattr(each, setting) and setting not in kind.rules.inputs:
                model.problem(
                    f"`{setting}` of {each.table} has no effect: the model is {kind}", "Remove it.", each.line
                )
        if each.changes and "changes" not in kind.rules.inputs:
            model.problem(f"the model is {kind}, which takes no `changes`", 'Write `table("…")`.', each.line)
        if each.time and each.on_change:
            model.problem(
                f"{each.table} is read by its `time`, so `on_change` has no effect", "Keep one of the two.", each.line
            )
        if each.key and each.on_change:
            model.problem(
                f"{each.table} is read by its `key`, so `on_change` has no effect", "Keep one of the two.", each.line
            )
    rule = _RULES.get(kind)
    return tuple(inputs) if rule is None else rule(inputs, model)


def _incremental(inputs: list[Input], model: _Reader) -> tuple[Input, ...]:
    for each in inputs:
        if each.time is None and each.on_change is None:
            because = f": {model.doubts[each.table]}" if each.table in model.doubts else ""
            model.problem(
                f"it is not known which windows a change of {each.table} touches{because}",
                f"If a column of it says so: {model.written(each.table, 'time', 'its_column')}. If it is read whole:"
                f" {model.written(each.table, 'on_change', 'rebuild')}, or `ignore` to leave the built windows as"
                " they are.",
                each.line,
            )
    if not any(each.time or each.on_change is None for each in inputs):
        model.problem(
            "an incremental model needs an input that is read in windows",
            "Compare a column of one with :start and :end, or write `kind: full`.",
        )
    return tuple(inputs)


def _history(inputs: list[Input], model: _Reader) -> tuple[Input, ...]:
    if not inputs:
        model.problem("an scd2 model needs an input, whose history it keeps", "Read a table, or write `kind: full`.")
    return tuple(inputs)


def _by_key(inputs: list[Input], model: _Reader) -> tuple[Input, ...]:
    for each in inputs:
        if not (each.key or each.on_change or each.changes or each.lookup):
            because = f": {model.doubts[each.table]}" if model.doubts.get(each.table) else ""
            model.problem(
                f"it is not known which keys a change of {each.table} touches{because}",
                f"If columns of it say so: {model.written(each.table, 'key', 'its_column')}. If it is read whole:"
                f" {model.written(each.table, 'on_change', 'rebuild')}, or `ignore` to leave the rows that are there.",
                each.line,
            )
    keyed = [each for each in inputs if each.key]
    if inputs and not keyed and not any(each.changes or not each.on_change for each in inputs):
        model.problem("a merge model needs an input that is read by its key", "Write `kind: full`.")
    # What is built together must be known by every one of them.
    shared = [name for name, _ in keyed[0].key if all(name in dict(each.key) for each in keyed)] if keyed else []
    if keyed and not shared:
        model.problem(
            "no column of the key is known for all of " + ", ".join(str(each.table) for each in keyed),
            f"Read one of them whole: {model.written(keyed[-1].table, 'on_change', 'rebuild')}.",
        )
    return tuple(replace(each, key=tuple((name, text) for name, text in each.key if name in shared)) for each in inputs)


def _append(given: list[Input], model: _Reader) -> tuple[Input, ...]:
    inputs = [each for each in given if not each.lookup]
    looked_up = [each for each in given if each.lookup]
    for each in inputs:
        if each.time:
            model.problem(f"`time` of {each.table} has no effect: the model is append", "Remove it.", each.line)
    taken = [each for each in inputs if each.new_rows or each.changes]
    if len(inputs) == 1 and not taken:
        return (replace(inputs[0], new_rows=True), *looked_up)
    if len(taken) != 1:
        example = inputs[0].table if inputs else TableName("bronze", "events")
        model.problem(
            "an append model takes the new rows of exactly one input",
            f"Write for that one: {model.written(example, 'new_rows', 'true')}.",
        )
    return (*inputs, *looked_up)


_RULES: Mapping[Kind, Callable[[list[Input], _Reader], tuple[Input, ...]]] = {
    Kind.INCREMENTAL: _incremental,
    Kind.APPEND: _append,
    Kind.MERGE: _by_key,
    Kind.SCD2: _history,
}

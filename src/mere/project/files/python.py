"""PySpark models, read from the syntax tree, so that a plan imports neither pyspark nor the user's code."""

from __future__ import annotations

import ast
import copy
import symtable
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mere.audits.audit import Custom
from mere.entries import Entry
from mere.errors import ConfigError
from mere.names import TableName
from mere.project.files import literals
from mere.project.files.defaults import Defaults
from mere.project.files.fingerprint import Source, fingerprint
from mere.project.files.inputs import (
    complete,
    in_default,
    key_of,
    refuse_latest_of_changes,
    refuse_lookups_in_part,
    with_lookups,
)
from mere.project.files.settings import (
    FUNCTION_KEYS,
    INPUT_KEYS,
    MODEL_KEYS,
    NAME_RULE,
    declared_key,
    read_settings,
    table_name,
    valid_name,
)
from mere.project.files.source import body_of, model_of
from mere.project.kinds import Kind
from mere.project.model import Input, Model, OnChange, Python
from mere.project.problems import Problems
from mere.sources.source import Function

_KEYS = tuple(key for key in MODEL_KEYS if key != "inputs")
_NO_DEFAULTS = Defaults()
_GIVEN = ("now", "spark")  # parameters that mere itself fills in
_GIVEN_TO_SOURCES = ("now", "since", "spark")
_SOURCES = "sources"  # the folder where there are sources, and no models
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class _Names:
    """What `mere.model`, `mere.source`, `mere.table` and `mere.changes` are called in a file."""

    model: frozenset[str]
    source: frozenset[str]
    table: frozenset[str]
    changes: frozenset[str]


def read_python(
    path: Path, text: str, customs: Mapping[str, Custom], source: Source, defaults: Defaults = _NO_DEFAULTS
) -> tuple[Model, ...]:
    """The models of a file, which may have none; or a ProjectError. `path` is relative to the project."""
    try:
        tree = ast.parse(text, path.as_posix())
    except SyntaxError as error:
        raise ConfigError(
            f"not valid Python: {error.msg}", file=path.as_posix(), line=error.lineno, column=error.offset
        ) from error
    except ValueError as error:
        raise ConfigError(f"not valid Python: {error}", file=path.as_posix()) from error
    names = _names(tree)
    problems = Problems()
    found: dict[_Function, ast.Call] = {}
    for statement in tree.body:
        if isinstance(statement, _Function) and (call := _decorator(statement, names, path, problems)) is not None:
            found[statement] = call
    models = []
    rest = [statement for statement in tree.body if statement not in found]
    for function, call in found.items():
        with problems.gather():
            called = [_bare(other, found[other], names) for other in _called(function, rest, found)]
            code = fingerprint([_bare(function, call, names), *rest, *called], PurePosixPath(path.as_posix()), source)
            reader = _Reader(path, names, customs, defaults)
            is_source = ast.unparse(call.func) in names.source
            models.append(reader.source(function, call, code) if is_source else reader.model(function, call, code))
    problems.raise_any()
    return tuple(models)


def _names(tree: ast.Module) -> _Names:
    found: dict[str, set[str]] = {"model": set(), "source": set(), "table": set(), "changes": set()}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "mere" and not node.level:
            for alias in node.names:
                if alias.name in found:
                    found[alias.name].add(alias.asname or alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "mere":
                    for name, known_as in found.items():
                        known_as.add(f"{alias.asname or 'mere'}.{name}")
    return _Names(**{name: frozenset(known_as) for name, known_as in found.items()})


def _decorator(function: _Function, names: _Names, path: Path, problems: Problems) -> ast.Call | None:
    own, other = (names.source, names.model) if path.parts[0] == _SOURCES else (names.model, names.source)
    for decorator in function.decorator_list:
        called = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
        if isinstance(decorator, ast.Call) and called in own:
            return decorator
        if called in own:
            message = f"`@{called}` needs the {'source' if own is names.source else 'model'}'s name"
            remedy = f'Write @{called}("schema.{function.name}").'
        elif called in other:
            message = f"`@{called}` is in the wrong folder"
            remedy = "Models are in models/, sources in sources/."
        else:
            continue
        problems.add(ConfigError(message, remedy=remedy, file=path.as_posix(), line=decorator.lineno))
    return None


def _bare(function: _Function, call: ast.Call, names: _Names) -> _Function:
    """Without what does not change the rows: its settings stand in the model, and what else says when it is built."""
    bare = copy.deepcopy(function)
    bare.decorator_list.pop(function.decorator_list.index(call))
    for default in [*bare.args.defaults, *bare.args.kw_defaults]:
        if isinstance(default, ast.Call) and ast.unparse(default.func) in names.table:
            default.keywords = [each for each in default.keywords if each.arg not in ("on_change", "key")]
    return bare


def _called(function: _Function, rest: Iterable[ast.stmt], models: Iterable[_Function]) -> list[_Function]:
    """The functions of other models of the file that a model may call, in their order."""
    others = {each.name: each for each in models if each is not function}
    left, called = [function, *rest], set()
    while left:
        new = [name for name in _globals(left.pop()) if name in others and name not in called]
        called.update(new)
        left += [others[name] for name in new]
    return [each for name, each in others.items() if name in called]


def _globals(statement: ast.stmt) -> set[str]:
    """The names of the module that are read in a statement, as Python sees it: parameters and variables are not."""
    found: set[str] = set()
    left = [symtable.symtable(ast.unparse(statement), "", "exec")]
    while left:
        table = left.pop()
        left += table.get_children()
        is_module = table.get_type() == "module"
        found |= {each.get_name() for each in table.get_symbols() if is_module or each.is_global()}
    return found


class _Reader:
    def __init__(self, path: Path, names: _Names, customs: Mapping[str, Custom], defaults: Defaults) -> None:
        self.path = path
        self.file = path.as_posix()
        self.names = names
        self.customs = customs
        self.defaults = defaults
        self.problems = Problems()

    def model(self, function: _Function, call: ast.Call, code: str) -> Model:
        name = TableName("", "")
        with self.problems.gather():
            name = self._name(call)
        entry = literals.mapping(call.keywords, self.path, call.lineno)
        given_by_default = self.defaults.of(self.path, name.namespace)
        settings = read_settings(entry, _KEYS, self.customs, self.problems, defaults=given_by_default)
        rules = settings.kind.rules
        if not rules.stored:
            self._problem("a view is SQL: a function cannot be one", "Choose another kind.", call)
        if isinstance(function, ast.AsyncFunctionDef):
            self._problem("a model cannot be an async function", "Write `def`.", function)
        inputs, parameters, given = self._parameters(function, settings.fields.get("key", ()))
        takes_now, now = "now" in given, settings.fields.get("now")
        if takes_now and rules.stored and rules.no_now:
            self._problem(rules.no_now[0].format("take `now`"), rules.no_now[1], function)
        elif takes_now and now is None:
            self._problem(
                "the parameter `now` needs a precision: how often it causes a rebuild",
                'Write for example now="day" in the decorator.',
                function,
            )
        if now is not None and not takes_now:
            self._problem("`now` is declared, but there is no parameter `now`", "Add one, or remove it.", call)
        audits = settings.fields["audits"]
        completed = complete(
            settings.kind, with_lookups(inputs, audits), self.file, function.lineno, in_default, self.problems
        )
        refuse_lookups_in_part(completed, audits, self.problems)
        refuse_latest_of_changes(settings, completed, self.file, self.problems)
        self.problems.raise_any()
        body = Python(function.name, function.lineno, tuple(parameters), code, takes_now, "spark" in given)
        return Model(name, settings.kind, self.file, body, completed, **settings.fields)

    def source(self, function: _Function, call: ast.Call, code: str) -> Model:
        name = TableName("", "")
        with self.problems.gather():
            name = self._name(call)
        entry = literals.mapping(call.keywords, self.path, call.lineno)
        given = self.defaults.of(self.path, name.namespace)
        settings = read_settings(entry, FUNCTION_KEYS, self.customs, self.problems, Kind.SOURCE, given)
        if isinstance(function, ast.AsyncFunctionDef):
            self._problem("a source cannot be an async function", "Write `def`.", function)
        found = entry.entries()
        takes: set[str] = set()
        for parameter, default in self._defaults(function):
            called = ast.unparse(default.func) if isinstance(default, ast.Call) else ""
            if called in self.names.table | self.names.changes:
                self._problem("a source reads nothing in the lake", "Make it a model in models/.", parameter)
            elif parameter.arg in _GIVEN_TO_SOURCES:
                takes.add(parameter.arg)
            elif default is None:
                message = f"mere does not know what to pass to the parameter `{parameter.arg}`"
                self._problem(message, "It has `spark`, `since` and `now` to give.", parameter)
        cursor = found["cursor"].text() if "cursor" in found else None
        if "since" in takes and cursor is None:
            message = "the parameter `since` needs a cursor: the column whose greatest value it gets"
            self._problem(message, 'Write for example cursor="updated_at" in the decorator.', function)
        feed = Function(function.name, cursor, frozenset(takes))
        body = body_of(found, feed, code, self.problems, settings)
        self.problems.raise_any()
        return model_of(name, self.file, body, settings, found, function.lineno)

    def _problem(self, message: str, remedy: str, node: ast.expr | ast.stmt | ast.arg) -> None:
        self.problems.add(ConfigError(message, remedy=remedy, file=self.file, line=node.lineno))

    def _name(self, call: ast.Call) -> TableName:
        if len(call.args) != 1:
            raise ConfigError(
                "a model has one argument without a keyword: its name",
                remedy='Write @model("schema.name", …).',
                file=self.file,
                line=call.lineno,
            )
        written = literals.text(call.args[0], self.path, "the model's name")
        schema, _, name = written.rpartition(".")
        if not valid_name(schema, name):
            raise ConfigError(
                f"`{written}` cannot be a model's name", remedy=NAME_RULE, file=self.file, line=call.lineno
            )
        top, *folder = self.path.parts[:-1]
        if folder[:1] != [schema] and not (top == _SOURCES and not folder):
            raise ConfigError(
                f"{written} is in the folder of another schema",
                remedy=f"Move it to {top}/{schema}/.",
                file=self.file,
                line=call.lineno,
            )
        return TableName(schema, name)

    def _parameters(
        self, function: _Function, key: Sequence[str]
    ) -> tuple[list[Input], list[tuple[str, TableName]], set[str]]:
        inputs: list[Input] = []
        parameters: list[tuple[str, TableName]] = []
        given: set[str] = set()
        for parameter, default in self._defaults(function):
            called = ast.unparse(default.func) if isinstance(default, ast.Call) else ""
            if isinstance(default, ast.Call) and called in self.names.table | self.names.changes:
                with self.problems.gather():
                    read = self._input(default, key, called in self.names.changes)
                    if any(each.table == read.table for each in inputs):
                        self._problem(f"{read.table} is the input of two parameters", "Remove one of them.", parameter)
                    inputs.append(read)
                    parameters.append((parameter.arg, read.table))
            elif parameter.arg in _GIVEN:
                given.add(parameter.arg)
            elif default is None:
                self._problem(
                    f"mere does not know what to pass to the parameter `{parameter.arg}`",
                    f'Give it a default: {parameter.arg}=table("schema.name").',
                    parameter,
                )
        return inputs, parameters, given

    def _defaults(self, function: _Function) -> Iterator[tuple[ast.arg, ast.expr | None]]:
        arguments = function.args
        for variadic in (arguments.vararg, arguments.kwarg):
            if variadic is not None:
                self._problem(f"`*{variadic.arg}` cannot be filled in", "Name each parameter.", variadic)
        positional = [*arguments.posonlyargs, *arguments.args]
        missing: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
        yield from zip(positional, [*missing, *arguments.defaults], strict=True)
        yield from zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)

    def _input(self, call: ast.Call, key: Sequence[str], changes: bool) -> Input:
        entry = literals.mapping(call.keywords, self.path, call.lineno)
        if len(call.args) != 1:
            function = ast.unparse(call.func)
            raise entry.error(
                f"`{function}` has one argument without a keyword: the table's name",
                f'Write {function}("schema.name").',
            )
        table = table_name(literals.text(call.args[0], self.path, "the table's name"), entry)
        if "." in table.namespace:
            raise entry.error(f"`{table}` has too many parts: a ref is never written in a model", "Write schema.table.")
        given = entry.keys(*() if changes else INPUT_KEYS)
        return Input(
            table,
            call.lineno,
            _optional(given.get("time")),
            OnChange(given["on_change"].choice(*OnChange)) if _optional(given.get("on_change")) else None,
            given["new_rows"].flag() if "new_rows" in given else False,
            key=key_of(declared_key(given["key"]), key, given["key"]) if "key" in given else (),
            changes=changes,
        )


def _optional(entry: Entry | None) -> str | None:
    """None may be written out in Python."""
    return entry.text() if entry is not None and entry.value() is not None else None

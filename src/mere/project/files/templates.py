"""Jinja in models: macros of macros/*.sql by name, variables of mere.yaml by `var`, and no access to the system."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from mere.entries import nearest
from mere.errors import ConfigError
from mere.names import near
from mere.project.problems import Problems

if TYPE_CHECKING:
    from jinja2 import Template, nodes
    from jinja2.sandbox import SandboxedEnvironment

_MARKS = ("{{", "{%", "{#")


@dataclass(frozen=True)
class MacroFile:
    file: str
    text: str


class Templates:
    """Jinja is imported when the first text that needs it comes."""

    def __init__(self, macros: tuple[MacroFile, ...], variables: Mapping[str, object], problems: Problems) -> None:
        self._files = macros
        self._variables = variables
        self._problems = problems
        self._names: dict[str, Any] | None = None
        self._sources: dict[str, str] = {}
        self._environment: SandboxedEnvironment | None = None
        self.homes: dict[str, tuple[str, int]] = {}  # of each macro: its file and line

    def render(self, file: str, text: str) -> str:
        """The text with everything in it expanded. A line of the text must have the number that it has in the file."""
        if not any(mark in text for mark in _MARKS):
            return text
        names = self.macros()
        return str(self._run(file, lambda: self._template(file, text).render(names)))

    def macros(self) -> dict[str, Any]:
        """Everything that a model can name. A macro can name every other one, wherever it stands."""
        if self._names is not None:
            return self._names
        from jinja2.runtime import Macro

        self._names = {"var": self._var}
        for each in self._files:
            with self._problems.gather():
                template = self._template(each.file, each.text)
                # The module keeps this very mapping, so that it sees macros of files that are read after it.
                module = self._run(each.file, lambda t=template: t.make_module(self._names, shared=True))  # type: ignore[misc]
                for name, macro in vars(module).items():
                    if isinstance(macro, Macro) and not name.startswith("_"):
                        self._define(name, macro, each)
        return self._names

    def unused(self, texts: Iterable[str]) -> dict[str, tuple[str, int]]:
        """The macros that none of the texts and no other macro names, with their file and line."""
        from jinja2 import meta

        self.macros()
        if not self.homes:
            return {}
        used: set[str] = set()
        for text in [*texts, *(each.text for each in self._files)]:
            if any(mark in text for mark in _MARKS):
                used |= meta.find_undeclared_variables(self._sandbox().parse(text))
                used |= _called_beside(self._sandbox().parse(text))
        return {name: home for name, home in self.homes.items() if name not in used}

    def _define(self, name: str, macro: object, source: MacroFile) -> None:
        assert self._names is not None
        lines = source.text.splitlines()
        line = next((at for at, text in enumerate(lines, 1) if "macro" in text and name in text), 1)
        if name == "var" or name in self.homes:
            home = "is mere's own" if name == "var" else "is also in {}:{}".format(*self.homes[name])
            raise ConfigError(f"the macro `{name}` {home}", remedy="Rename one.", file=source.file, line=line)
        self._names[name] = macro
        self.homes[name] = source.file, line

    def _var(self, name: str, /) -> object:
        from jinja2 import UndefinedError

        if name not in self._variables:
            known = nearest(name, self._variables, "variables") if self._variables else "mere.yaml has no `vars:`."
            raise UndefinedError(f"there is no variable `{name}`. {known}")
        return self._variables[name]

    def _template(self, file: str, text: str) -> Template:
        from jinja2 import TemplateSyntaxError

        environment = self._sandbox()
        self._sources[file] = text
        try:
            return environment.get_template(file)
        except TemplateSyntaxError as error:
            raise ConfigError(
                f"not valid Jinja: {error.message}", file=str(error.name or file), line=error.lineno
            ) from error

    def _sandbox(self) -> SandboxedEnvironment:
        if self._environment is None:
            from jinja2 import FunctionLoader, StrictUndefined
            from jinja2.sandbox import ImmutableSandboxedEnvironment

            self._environment = ImmutableSandboxedEnvironment(
                # With a file's name Jinja can say in which line of which file something went wrong.
                loader=FunctionLoader(self._source),
                undefined=StrictUndefined,
                autoescape=False,
                cache_size=0,
                keep_trailing_newline=True,
            )
            # A model's text must not change by itself.
            del self._environment.globals["lipsum"], self._environment.filters["random"]
        return self._environment

    def _source(self, name: str) -> tuple[str, str, None] | None:
        return (self._sources[name], name, None) if name in self._sources else None

    def _run(self, file: str, expand: Callable[[], Any]) -> Any:
        try:
            return expand()
        except ConfigError:
            raise
        except Exception as error:  # noqa: BLE001 - what a template calls may raise anything
            self._explain(file, error)

    def _explain(self, file: str, error: Exception) -> NoReturn:
        """The deepest line of a template that the error went through, which may be in a macro."""
        line, trace = 1, error.__traceback__
        while trace is not None:
            if (name := trace.tb_frame.f_code.co_filename) in self._sources:
                file, line = name, trace.tb_lineno
            trace = trace.tb_next
        message = str(error) or type(error).__name__
        raise ConfigError(f"Jinja: {message}", remedy=self._remedy(message), file=file, line=line) from error

    def _remedy(self, message: str) -> str | None:
        name = message.removesuffix(" is undefined").strip("'")
        if not message.endswith(" is undefined"):
            return None
        if name in self._variables:
            return f"Write {{{{ var('{name}') }}}}."
        known = [each for each in self._names or {} if each != "var"]
        return (
            f"A model can use the macros of macros/*.sql and {{{{ var('…') }}}}.{near(name, known)}"
            " Text with braces stands between {% raw %} and {% endraw %}."
        )


def _called_beside(tree: nodes.Template) -> set[str]:
    """Names that a file calls and may have defined itself."""
    from jinja2 import nodes

    return {call.node.name for call in tree.find_all(nodes.Call) if isinstance(call.node, nodes.Name)}

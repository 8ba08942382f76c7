"""Custom audits: audits/<name>.sql, a query for bad rows with parameters, and its settings in the leading comment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mere import entries
from mere.audits.rules import BUILT_IN, Key, Severity
from mere.errors import ConfigError

if TYPE_CHECKING:
    from jinja2 import Environment

OPTIONS = ("severity", "where", "allow", "name", "quarantine", "max_bad")
THIS = "this"  # stands for the audited table


@dataclass(frozen=True)
class Custom:
    name: str
    file: str
    text: str  # with Jinja in it
    parameters: tuple[str, ...]  # that stand in it
    defaults: Mapping[str, object] = field(default_factory=dict)
    severity: Severity = Severity.ERROR
    description: str = ""

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(name for name in self.parameters if name not in self.defaults)

    def render(self, arguments: Mapping[str, object]) -> str:
        return _environment().from_string(self.text).render({**self.defaults, **arguments, THIS: THIS}).strip()


def load_customs(folder: Path) -> dict[str, Custom]:
    """The custom audits of a project's folder, by name."""
    return {path.stem: _load(path, path.relative_to(folder)) for path in sorted((folder / "audits").glob("*.sql"))}


def _load(path: Path, file: Path) -> Custom:
    if path.stem in (*BUILT_IN, *OPTIONS, Key.word):
        raise ConfigError(f"{path.stem} is an audit of mere's own", remedy="Rename the file.", file=str(file))
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("cannot be read as UTF-8 text", file=str(file)) from error
    comment = []
    for line in lines:
        if not line.startswith("--"):
            break
        comment.append(line.removeprefix("--").removeprefix(" "))
    settings = entries.parse("\n".join(comment), file, margin=3).keys("description", "severity", "defaults")
    # The comment's lines stay as empty ones, so that a line of the query has the number it has in the file.
    text = "\n".join([*("" for _ in comment), *lines[len(comment) :]])
    parameters = _parameters(str(file), text)
    defaults = {}
    if "defaults" in settings:
        defaults = {name: value.value() for name, value in settings["defaults"].keys(*parameters).items()}
    severity = Severity(settings["severity"].choice(*Severity)) if "severity" in settings else Severity.ERROR
    description = settings["description"].text() if "description" in settings else ""
    return Custom(path.stem, str(file), text, parameters, defaults, severity, description)


def _parameters(file: str, text: str) -> tuple[str, ...]:
    from jinja2 import TemplateError, meta

    try:
        found = meta.find_undeclared_variables(_environment().parse(text))
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        raise ConfigError(f"not valid Jinja: {error.message}", file=file, line=line) from error
    if THIS not in found:
        raise ConfigError(
            "the query does not read the audited table",
            remedy="Write {{ this }} for it: SELECT * FROM {{ this }} WHERE …",
            file=file,
        )
    return tuple(sorted(found - {THIS}))


@cache
def _environment() -> Environment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    return SandboxedEnvironment(undefined=StrictUndefined, autoescape=False)

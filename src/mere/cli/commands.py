"""The commands by name, and how to print one so that it works as typed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import click
from click.core import ParameterSource

# A command's module is imported when the command is used: a start must not pay for the others.
MODULES = {
    "init": "project.init",
    "check": "project.check",
    "test": "project.test",
    "plan": "project.plan",
    "run": "project.run",
    "runs": "project.run",
    "audit": "project.audit",
    "quarantine": "project.quarantine",
    "lineage": "project.lineage",
    "manifest": "project.manifest",
    "branch": "lake.refs",
    "tag": "lake.refs",
    "tables": "lake.sql",
    "show": "lake.show",
    "growth": "lake.growth",
    "diff": "lake.show",
    "sql": "lake.sql",
    "serve": "service.serve",
    "user": "service.user",
    "token": "service.token",
    "connect": "service.connect",
    "log": "lake.log",
    "publish": "lake.log",
    "revert": "lake.log",
    "drop": "lake.log",
    "rename": "lake.log",
    "adopt": "lake.adopt",
    "gc": "lake.gc",
    "lake": "lake.lake",
    "relocate": "lake.gc",
    "engine": "service.engine",
    "java": "project.init",
    "doctor": "service.doctor",
    "generate": "project.generate",
}
_TYPED = re.compile(rf"\bmere (?=(?:{'|'.join(sorted(MODULES.keys() - {'java', 'generate'}))})\b)")


def before_the_command(group: click.Group, words: Sequence[str], option: str) -> str | None:
    """The command line with an option of the group in its place; None if the group has no such option."""
    if not any(option in each.opts and not getattr(each, "is_flag", False) for each in group.params):
        return None
    at = next((at for at, word in enumerate(words) if word.partition("=")[0] == option), None)
    if at is None:
        return None
    end = at + (1 if "=" in words[at] else 2)
    return shlex.join(["mere", *words[at:end], *words[:at], *words[end:]])


def as_typed(remedy: str) -> str:
    """With the options that the user gave before the command: without them it would be about another lake."""
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return remedy
    root = ctx.find_root()
    # After `mere init` there is a new lake, and what follows is about that one.
    names = ["profile"] if "mere init" in remedy else ["lake", "profile"]
    given = [name for name in names if root.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    words = "".join(f"--{name} {shlex.quote(root.params[name])} " for name in given)
    return _TYPED.sub(lambda found: found[0] + words, remedy) if words else remedy

"""The commands by name, and how one is written so that it works as typed."""

from __future__ import annotations

import re
import shlex

import click
from click.core import ParameterSource

# A command's module is imported when the command is used: a start must not pay for the others.
MODULES = {
    "init": "project",
    "check": "check",
    "test": "testing",
    "plan": "planning",
    "run": "running",
    "runs": "running",
    "audit": "audit",
    "quarantine": "quarantine",
    "lineage": "lineage",
    "manifest": "manifest",
    "branch": "refs",
    "tag": "refs",
    "tables": "reading",
    "show": "inspect",
    "growth": "growth",
    "diff": "inspect",
    "sql": "reading",
    "serve": "serve",
    "user": "user",
    "log": "commits",
    "publish": "commits",
    "revert": "commits",
    "drop": "commits",
    "rename": "commits",
    "adopt": "adopt",
    "gc": "files",
    "lake": "lake",
    "relocate": "files",
    "engine": "engine",
    "java": "project",
    "doctor": "doctor",
    "generate": "generate",
}
_TYPED = re.compile(rf"\bmere (?=(?:{'|'.join(sorted(MODULES.keys() - {'java', 'generate'}))})\b)")


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

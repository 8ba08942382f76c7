"""The remedies that a plan or a run prints, completed so that they work as typed.

A step names them as they are typed for `main`; options such as --on are added here.
"""

from __future__ import annotations

import re

from mere.names import MAIN, RUN_PREFIX, run_of

REBUILD = "mere run --full-refresh {0}   to rebuild it"
EXCHANGED = f"mere run --accept {{0}}   to skip the replaced rows, and add the new ones\n{REBUILD}"
# Before the rows of its input are exchanged: a build of it would be of the old ones.
EXCHANGING = (
    "mere run --accept {0}   to skip the rows that are replaced, and add the new ones\n"
    "mere run --select {1} && mere run --full-refresh {0}   to rebuild it from the rows that there are then"
)

_DECISION = re.compile(
    r"\bmere (run|plan) (?=--(?:accept|select|full-refresh|forward-only|allow-breaking)\b|  to start over)"
)
_REBUILD = re.compile(r"mere run (?:--on \S+ )?--full-refresh \S+   to rebuild it$")
_ACCEPT = re.compile(r"mere run (?:--on \S+ )?(--accept (\S+).*)")
_KEEP = re.compile(r"mere plan (?:--on \S+ )?--accept \S+")


def on_branch(remedy: str, target: str, ref: str) -> str:
    """Of a plan for the branch `target`, made on `ref`: that branch, or the one of a run that is resumed."""
    branch = {"run": target, "plan": ref}

    def said(found: re.Match[str]) -> str:
        on = branch[found[1]]
        return found[0] if on == MAIN else f"{found[0]}--on {on} "

    return _DECISION.sub(said, remedy)


def within(remedy: str, branch: str) -> str:
    """Of a step in a run: what it is about stands on the run's branch alone. The decision is taken there, and whatever
    is to be done to the table comes when that is published; or a new run knows nothing of what attempts before this
    one have loaded."""
    run = run_of(branch)
    if _REBUILD.match(remedy) and branch != f"{RUN_PREFIX}{run}":
        return f"mere run   to start over, from what is published\n{remedy}"
    resumed = f"mere run --resume {run}"  # which knows its branch
    if keeping := _KEEP.match(remedy):
        return f"{keeping[0]} && {resumed}{remedy[keeping.end() :]}"
    accepting = _ACCEPT.match(remedy)
    if accepting is None:
        return remedy
    others = (f"{resumed} --accept {accepting[2]} && {line}" for line in remedy.splitlines()[1:])
    return "\n".join([f"{resumed} {accepting[1]}", *others])

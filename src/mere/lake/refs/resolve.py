"""Resolves an expression such as `main~3` or `v1@2h` to a commit."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from mere.errors import LakeError, RefNotFound
from mere.lake.log.commits import Commit
from mere.lake.log.refs import Ref
from mere.lake.store.port import Store
from mere.names import EXPRESSION_RULE, Ago, AsOf, Back, RefExpression, Step, near
from mere.text.words import counted


@dataclass(frozen=True)
class Resolved:
    """A commit, and the ref whose head it is where the expression names one and nothing more."""

    text: str
    commit: Commit
    ref: Ref | None
    base: Ref | None  # with which the expression begins

    @property
    def readable(self) -> Commit:
        """The commit, if the files of its tables are still there."""
        if self.commit.expired:
            raise LakeError(f"Commit {self.commit.short_id} is in the log, but its files were swept by mere gc.")
        return self.commit


def resolve(store: Store, text: str) -> Resolved:
    expression = RefExpression.parse(text)
    ref = store.ref(expression.base)
    commit = store.commit_by_seq(ref.head) if ref else _by_prefix(store, expression)
    for step in expression.steps:
        commit = _walk(store, expression, commit, step)
    return Resolved(text, commit, ref if not expression.steps else None, ref)


def _walk(store: Store, expression: RefExpression, commit: Commit, step: Step) -> Commit:
    if isinstance(step, Back):
        found = next(islice(store.ancestors(commit), min(step.commits, sys.maxsize), None), None)
        missing = f"does not go {counted(step.commits, 'commit')} back"
    else:
        instant = step.instant if isinstance(step, AsOf) else _so_long_ago(store, commit, step)
        found = store.ancestor_at(commit, instant)
        missing = f"has no commit as old as {instant:%Y-%m-%dT%H:%M:%SZ}"
    if found is None:
        raise RefNotFound(
            f"{expression.text}: the history of {expression.base} {missing}.",
            remedy=f"See mere log {expression.base}.",
        )
    return found


def _so_long_ago(store: Store, commit: Commit, step: Ago) -> datetime:
    """Counted from now, or from the commit itself if a clock that was ahead put it into the future."""
    try:
        return max(store.now(), commit.at) - step.age
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _by_prefix(store: Store, expression: RefExpression) -> Commit:
    found = store.commits_by_prefix(expression.base) if expression.may_be_commit else []
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(commit.short_id for commit in found)
        raise RefNotFound(f"{expression.base} matches several commits: {ids}.", remedy="Type more of it.")
    names = [ref.name for ref in store.refs()]
    raise RefNotFound(
        f"There is no branch, tag or commit {expression.base!r}.{near(expression.base, names)}",
        remedy=EXPRESSION_RULE,
    )

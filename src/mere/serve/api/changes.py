"""What changes a branch: publish and revert."""

from __future__ import annotations

from typing import Any

from mere.errors import LakeConflict, UsageError
from mere.lake.log.commits import difference
from mere.lake.log.refs import RefKind
from mere.names import run_of
from mere.serve.api import rights
from mere.serve.api.verb import Call


def publish(call: Call) -> dict[str, Any]:
    """Publish everything that a branch changed to its target, in one commit, or nothing. `expect`: the `head` of a dry
    run, to publish exactly what was seen."""
    branch, into = call.body["branch"], call.body["into"]
    if into is not None:
        call.check_ref(into)
    call.check_ref(branch)
    seen = call.lake.publish(branch, into, dry_run=True, expect=call.body["expect"])
    call.said["into"] = seen.target
    if call.body["dry_run"] and rights.may_see(call.access, seen):
        return seen.to_dict()
    rights.check_published(call.access, seen.target, seen.changes)
    if call.access.role.is_restricted:
        for each in seen.conflicts:
            call.access.check_files(each.key.table)
    if call.body["dry_run"]:
        return seen.to_dict()
    ref = call.lake.store.ref(branch)
    if ref is not None and ref.kind is RefKind.RUN:
        raise UsageError(
            f"{branch} is the branch of a run that did not finish. Nothing was published.",
            remedy=f"Fix what failed and resume the run {run_of(branch)}.",
        )
    if seen.conflicts:
        raise LakeConflict(
            f"{', '.join(str(each.key) for each in seen.conflicts)} moved on {seen.target}. Nothing was published.",
            remedy=f"Bring the changes into the branch: mere branch update {branch}",
        )
    # What was looked at a moment ago, and nothing that has come since.
    done = call.lake.publish(branch, seen.target, message=call.body["message"], author=call.author, expect=seen.head.id)
    call.said["commit"] = done.commit.id if done.commit else None
    return done.to_dict()


def revert(call: Call) -> dict[str, Any] | None:
    """Undo a commit, or with `to` everything since a ref, by a new commit; null if there is nothing to undo."""
    commit, to, on = call.body["commit"], call.body["to"], call.body["on"]
    if (commit is None) == (to is None):
        raise UsageError("Name a commit to undo, or `to`, a ref, not both.")
    call.check_ref(on)
    call.check_ref(to or commit)
    options = {"message": call.body["message"], "author": call.author}
    if commit is not None:
        found = call.lake.resolve(commit).commit
        rights.check_changes(call.access, on, call.lake.store.with_changes([found])[0].changes)
        made = call.lake.revert(found.id, on, **options)
    else:
        then, now = call.lake.at(to), call.lake.at(on)
        rights.check_changes(call.access, on, difference(now.entries, then.entries).values())
        if call.access.role.is_restricted:
            # It takes back whatever has come by then, and that could be anything.
            call.access.check_unrestricted("revert a whole branch")
        made = call.lake.restore(to, on, **options)
    call.said["commit"] = made.id if made else None
    return made.to_dict() if made else None

"""The tables of a run's branch as the run itself left them, and as they were when they were audited."""

from __future__ import annotations

from mere.lake.log.commits import Commit, Entry, Key, Space

Signed = dict[Key, Entry | None]


def sign(signed: Signed, commit: Commit | None) -> None:
    """What the run has committed itself. Engines write in between, and what they wrote is signed when it is audited."""
    if commit:
        signed.update({each.key: each.new for each in commit.changes if each.key.space is Space.RELATION})

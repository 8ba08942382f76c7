"""The commits that lead to a ref, as `lake.log` returns them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from mere.lake.log.commits import Commit, change_lines
from mere.text import notebook
from mere.text.notebook import Column
from mere.text.words import moment


class Log:
    """Commits, newest first, read from the database as they are taken. It can be gone through as often as wanted."""

    def __init__(self, ref: str, read: Callable[[], Iterator[Commit]]) -> None:
        self.ref = ref
        self._read = read

    def __iter__(self) -> Iterator[Commit]:
        return self._read()

    def __repr__(self) -> str:
        return f"<Log of {self.ref}>"

    def to_dict(self) -> list[dict[str, Any]]:
        """What `mere log --json` prints, of all commits."""
        return [each.to_dict() for each in self]

    def _repr_html_(self) -> str:
        """The newest commits."""
        columns = [Column("commit"), Column("time"), Column("author"), Column("message"), Column("changes")]
        commits = list(islice(self, notebook.ROWS + 1))
        rows = [
            (each.short_id, moment(each.at), each.by, each.message or each.kind, "; ".join(change_lines(each.changes)))
            for each in commits
        ]
        more = f"the newest {notebook.ROWS} commits; there are more" if len(rows) > notebook.ROWS else ""
        return notebook.shown(f"log of {self.ref}", notebook.table(columns, rows, more))

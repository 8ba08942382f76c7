"""The state of a transaction, from BEGIN to its end. Nothing is ever written here; it decides what is read."""

from __future__ import annotations

from dataclasses import dataclass, field

from mere.serve.protocol.port import PgError
from mere.serve.protocol.statement import End, OfSavepoint, RollbackTo, Statement


@dataclass
class Transaction:
    """`open`: somebody said BEGIN. `failed`: a statement in it went wrong, and all are refused up to its end."""

    open: bool = False
    failed: bool = False
    savepoints: list[str] = field(default_factory=list)

    @property
    def status(self) -> bytes:
        return b"E" if self.failed else b"T" if self.open else b"I"

    def begin(self) -> None:
        self.open = True

    def end(self) -> None:
        self.open = self.failed = False
        self.savepoints.clear()

    def fail(self) -> None:
        self.failed = self.open

    def check(self, statement: Statement) -> None:
        """Whether this statement may be executed now."""
        if self.failed and not isinstance(statement, End | RollbackTo):
            raise PgError("25P02", "current transaction is aborted, commands ignored until end of transaction block")
        if not self.open and isinstance(statement, OfSavepoint):
            raise PgError("25P01", f"{statement.tag} can only be used in transaction blocks")

    def save(self, name: str) -> None:
        self.savepoints.append(name)

    def release(self, name: str) -> None:
        del self.savepoints[self._place(name) :]

    def back_to(self, name: str) -> None:
        del self.savepoints[self._place(name) + 1 :]
        self.failed = False

    def _place(self, name: str) -> int:
        if name not in self.savepoints:
            raise PgError("3B001", f'savepoint "{name}" does not exist')
        return len(self.savepoints) - 1 - self.savepoints[::-1].index(name)

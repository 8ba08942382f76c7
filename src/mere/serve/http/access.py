"""Who asks, and what that caller may do. Handlers ask an `Access`; what is not allowed is an HttpError 403."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from mere.names import MAIN, RefExpression, TableName
from mere.serve.access.roles import Role
from mere.serve.http.errors import forbidden

_GATEWAY = "Read it through the gateway (Postgres or Arrow Flight), which shows what the role may see."


@dataclass(frozen=True)
class Caller:
    """Who was let in with a request."""

    name: str
    address: str
    trusted: bool = False  # nobody had to show a password: it is somebody on this machine


@dataclass(frozen=True)
class Access:
    """What a caller may do at the moment. `declared`: whether the role is one of a file of roles."""

    caller: Caller
    role: Role
    declared: bool = False

    # reading

    def may_read_at(self, ref: RefExpression) -> bool:
        return self.role.may_read_at(ref)

    def may_read(self, table: TableName) -> bool:
        """Whether the caller may know of it. Its files are another question: `check_files`."""
        return self.role.may_read(table)

    def check_ref(self, ref: RefExpression) -> None:
        if not self.may_read_at(ref):
            raise forbidden(f"{self.caller.name} may not read {ref.text}.")

    def check_known(self, tables: Iterable[TableName]) -> None:
        """A rule for columns or rows that names no table of a commit may be for one that has another name there."""
        if unmet := self.role.unmet(tables) if self.role.columns or self.role.rows else []:
            names = ", ".join(rule.pattern for rule in unmet)
            raise forbidden(f"The role {self.role.name} has rules for {names}, and no such table is on this ref.")

    def check_files(self, table: TableName) -> None:
        """Files hold all rows and columns of a table: whoever may see a part of it reads it elsewhere."""
        if not self.may_read(table):
            raise forbidden(f"{self.caller.name} may not read {table}.")
        if self.role.conditions(table) or self.role.chosen(table, ()) is not None:
            raise forbidden(
                f"{self.caller.name} may read a part of {table}, and files cannot be given in part. {_GATEWAY}"
            )

    # writing

    def may_write(self, ref: str, schema: str) -> bool:
        """To a branch. Without roles everybody on this machine writes where --trust lets them in; users with passwords
        write to branches, and main is left to runs and publishes. A role writes nothing."""
        del schema  # rules for schemas are a matter of roles
        return not self.declared and (self.caller.trusted or ref != MAIN)

    def check_write(self, ref: str, schemas: Collection[str]) -> None:
        for schema in sorted(schemas):
            if not self.may_write(ref, schema):
                raise forbidden(f"{self.caller.name} may not write to {schema} on {ref}. {self._way_on(ref)}")

    def _way_on(self, ref: str) -> str:
        if self.declared:
            return f"The role {self.role.name} reads only."
        return f"Write to a branch, and publish it: mere branch create NAME --from {ref}"

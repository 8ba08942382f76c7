"""The caller of a request, and what it may do. Handlers check an `Access`; what is not allowed is an HttpError 403."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mere.names import MAIN, RefExpression, TableName
from mere.serve.access.roles import Role
from mere.serve.http.errors import HttpError, forbidden

_GATEWAY = "Read it through the gateway (Postgres or Arrow Flight), which shows what the role may see."


@dataclass(frozen=True)
class Caller:
    """Who was let in with a request."""

    name: str
    address: str
    role: str | None = None  # that of the token; None: the user's own
    token: str | None = None  # the id of the one that was shown


@dataclass(frozen=True)
class Access:
    """What a caller may do at the moment."""

    caller: Caller
    role: Role

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
            raise forbidden(f"The role {self.role.name} has rules for {names}, which is not on this ref.")

    def check_files(self, table: TableName) -> None:
        """Files hold all rows and columns of a table: whoever may see a part of it reads it elsewhere."""
        if not self.may_read(table):
            raise forbidden(f"{self.caller.name} may not read {table}.")
        if not self.role.may_read_all_of(table):
            raise forbidden(
                f"{self.caller.name} may read only a part of {table}, and parts of files cannot be withheld. {_GATEWAY}"
            )

    def may_have_signatures(self, table: TableName) -> bool:
        """For requests to S3: a table's folder has its files of all refs and all times."""
        return self.role.reads_always(table)

    def check_signatures(self, table: TableName) -> None:
        if not self.may_have_signatures(table):
            raise forbidden(
                f"{self.caller.name} may not read all of {table} on all refs and at all times, which its folder holds."
                f" {_GATEWAY}"
            )

    # writing

    def may_write(self, ref: str, schema: str, table: str | None = None) -> bool:
        """To a table of a branch, or without one to the schema itself."""
        return self.role.may_write(ref, schema, table)

    def check_write(self, ref: str, schema: str, table: str | None = None) -> None:
        if not self.may_write(ref, schema, table):
            what = schema if table is None else f"{schema}.{table}"
            raise forbidden(f"{self.caller.name} may not write {what} on {ref}. {self._why(ref, schema, table)}")

    def check_write_to(self, ref: str) -> None:
        """To something of a branch: to make it, to delete it, to publish to it."""
        if not self.role.may_write_to(ref):
            raise forbidden(f"{self.caller.name} may not write to {ref}. {self._why(ref)}")

    def check_publish_to(self, ref: str) -> None:
        """To change a branch by a publish or a run."""
        role = self.role
        if not role.publishing.may_write_to(ref):
            why = f"The role {role.name} is read-only."
            if role.writes is not None and not role.may_connect(ref):
                why = f"The role {role.name} does not read it."
            elif role.writes is not None:
                why = f"In `write` of the role {role.name}, neither `refs` nor `publish` names {ref}."
            raise forbidden(f"{self.caller.name} may not publish into {ref}. {why}")

    @property
    def publishing(self) -> Access:
        """What the caller may do in a publish or a run."""
        return replace(self, role=self.role.publishing)

    def check_drop(self, what: TableName) -> None:
        """Whoever may write a table or view may drop it: other refs keep it."""

    def check_view(self, ref: str, schema: str, view: str) -> None:
        """A view is read with the rights of the server: whoever does not read everything could read it by a view."""
        self.check_write(ref, schema, view)
        if self.role.is_restricted:
            raise self._part(f"write the view {schema}.{view}, which could show what is hidden from the role")

    def check_unrestricted(self, what: str) -> None:
        """What leads to files of any table, ref and time is for those who read all of them."""
        if not self.role.reads_everything:
            raise self._part(what)

    def _part(self, what: str) -> HttpError:
        return forbidden(f"{self.caller.name} may not {what}: the role {self.role.name} does not read everything.")

    def _why(self, ref: str, schema: str | None = None, table: str | None = None) -> str:
        role = self.role
        if role.writes is None:
            return f"The role {role.name} is read-only."
        if not role.may_write_to(ref):
            if ref == MAIN:
                return (
                    f"Only runs and publishes write to {MAIN}, unless `write: refs` of a role names it. Write to a"
                    " branch, and publish that: mere branch create NAME"
                )
            return f"The role {role.name} may write only to the branches {', '.join(role.writes.refs)}."
        if schema is not None and not role.writes.names_schema(schema):
            return f"The role {role.name} may write only to the schemas {', '.join(role.writes.schemas)}."
        return f"A role may write only tables that it reads in full; {role.name} does not read all of {schema}.{table}."

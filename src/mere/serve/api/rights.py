"""What a caller sees and changes through the API: no more than through the gateway and the catalog.

Nothing here filters rows. Of a table that a role sees in part only its name is told; what would be made of its rows,
such as differences, samples of audits and counts, is for those who read all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from mere.errors import TableNotFound
from mere.lake.log.commits import Change, Commit, Key, Kind, Space
from mere.lake.metadata_tables import commits as metadata_tables
from mere.lake.query.tables import TableSet
from mere.lake.refs.publish import Publication
from mere.names import TableName
from mere.serve.access.roles import BRANCHES
from mere.serve.http.access import Access
from mere.serve.http.errors import forbidden


def whole(access: Access, tables: TableSet) -> TableSet:
    """With those tables alone that the caller reads as a whole. A view is read with the rights of who made it, and its
    SQL names other tables: it is for those who read everything."""
    if not access.role.is_restricted:
        return tables
    kept = {
        key: entry
        for key, entry in tables.entries.items()
        if key.space is Space.RELATION and entry.kind is Kind.TABLE and access.role.may_read_all_of(key.table)
    }
    return replace(tables, entries=kept)


def known(access: Access, tables: TableSet) -> TableSet:
    """With those tables alone of which the caller may know."""
    if not access.role.is_restricted:
        return tables
    kept = {
        key: entry
        for key, entry in tables.entries.items()
        if key.space is Space.RELATION and access.may_read(key.table)
    }
    return replace(tables, entries=kept)


def seen(access: Access, commits: Iterable[Commit]) -> Iterable[Commit]:
    """Commits with the changes that the caller may know of."""
    return metadata_tables.seen(commits, access.role)


def _whole(access: Access, key: Key) -> bool:
    return key.space is Space.RELATION and access.role.may_read_all_of(key.table)


def check_history(access: Access, ref: str) -> None:
    """A log is the past of a ref."""
    if not access.role.history:
        raise forbidden(f"{access.caller.name} may not read the history of {ref}.")


def check_table(access: Access, table: TableName) -> None:
    """Of which more than its name is told."""
    if not access.may_read(table):
        raise TableNotFound(f"There is no table {table}.")
    access.check_files(table)


def check_view(access: Access, view: TableName) -> None:
    """What is told of a view has its SQL."""
    if access.role.is_restricted:
        raise forbidden(
            f"{access.caller.name} may not see how the view {view} is made, for its SQL names other tables: the role"
            f" {access.role.name} does not read all of them."
        )


def check_named(access: Access, ref: str) -> None:
    """To make or delete a branch or tag of this name."""
    access.check_write_to(ref)


def may_see(access: Access, seen: Publication) -> bool:
    """All that a publish would do. The commits that are in its way may have changed other tables, too."""
    role = access.role
    if not role.history or not role.may_connect(seen.target):
        return False
    if not role.is_restricted:
        return True
    return not seen.conflicts and all(each.kind is Kind.TABLE and _whole(access, each.key) for each in seen.changes)


def check_published(access: Access, ref: str, changes: Iterable[Change]) -> None:
    """To put these changes onto a branch by a publish or a run. Without roles, everybody who is let in may do that,
    main included; of a role, `write` has to name the branch."""
    if not _is_everybody(access):
        access.check_publish_to(ref)
        _check_each(access.publishing, ref, changes)


def check_changes(access: Access, ref: str, changes: Iterable[Change]) -> None:
    """To put these changes onto a branch in another way."""
    if not _is_everybody(access):
        access.check_write_to(ref)
        _check_each(access, ref, changes)


def _check_each(access: Access, ref: str, changes: Iterable[Change]) -> None:
    for change in changes:
        key = change.key
        if key.space is Space.RELATION and not access.may_read(key.table):
            raise forbidden(f"{access.caller.name} may not write all that this changes on {ref}.")
        if key.space is Space.PROPERTY:
            access.check_write(ref, key.namespace)
        elif change.kind is Kind.VIEW:
            access.check_view(ref, key.namespace, key.name)
        else:
            access.check_write(ref, key.namespace, key.name)


def check_all(access: Access, ref: str, tables: Callable[[], Iterable[TableName]]) -> None:
    """To do what reads everything, and may write to each of these tables: to run a project's code. Whoever may not is
    told nothing of the project, its mistakes included."""
    access.check_unrestricted("run the project, which reads everything")
    if not _is_everybody(access):
        check_published(access, ref, (Change(Key.of(each), None, None) for each in tables()))


def _is_everybody(access: Access) -> bool:
    return access.role.writes is BRANCHES

"""The rows of leases, and what a transaction holds for as long as it lasts."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from mere.lake.log.fence import Fence, lost_lease
from mere.lake.store import rows
from mere.lake.store.port import Lease
from mere.lake.store.rows import Given, Tx, stamp
from mere.names import TableName

_LEASE = "target, namespace, name, holder, acquired_at, expires_at"
_THEIRS = "WHERE (target, namespace, name, holder) IN (SELECT target, namespace, name, holder FROM {given})"
TAKE = f"INSERT INTO mere_leases ({_LEASE}) SELECT {_LEASE} FROM {{given}}"
RELEASE = f"DELETE FROM mere_leases {_THEIRS}"


def hold(tx: Tx, branch: str, fence: Fence) -> None:
    """Raise, unless all that the fence is about is still so; until the transaction ends nobody changes it."""
    if strangers := rows.astray(tx, branch, fence.signed):
        raise fence.unsigned(strangers)
    # An update takes the rows, so that nobody else can take the leases before this ends. An expired one that nobody has
    # taken will do: whoever takes one deletes those first.
    kept = f"UPDATE mere_leases SET holder = holder {_THEIRS}"
    if tx.run_for(kept, holding(fence.target, fence.leased, fence.holder)) != len(set(fence.leased)):
        raise lost_lease(fence.holder, fence.leased)


def holding(target: str, tables: Collection[TableName], holder: str, *times: datetime) -> Given:
    columns = tuple(_LEASE.split(", "))[: 4 + len(times)]
    return Given(columns, [(target, each.namespace, each.name, holder, *map(stamp, times)) for each in sorted(tables)])


def held(tx: Tx) -> list[Lease]:
    now = rows.now(tx)
    return [lease for lease in known(tx) if lease.expires_at > now]


def known(tx: Tx) -> list[Lease]:
    return [
        Lease(target, TableName(namespace, name), holder, rows.time(expires), rows.time(acquired))
        for target, namespace, name, holder, acquired, expires in tx.rows(
            f"SELECT {_LEASE} FROM mere_leases ORDER BY target, namespace, name"
        )
    ]

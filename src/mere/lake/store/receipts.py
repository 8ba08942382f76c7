"""Stored answers to idempotent requests."""

from __future__ import annotations

from mere.lake.store.port import RECEIPTS_LAST, Receipt, Repeated
from mere.lake.store.rows import Tx, now, stamp

_COLUMNS = "user_name, operation, request_key, status, pointer, content, request"


def find(tx: Tx, user: str, operation: str, key: str) -> Receipt | None:
    found = tx.rows(
        f"SELECT {_COLUMNS} FROM mere_receipts WHERE user_name = ? AND operation = ? AND request_key = ?",
        (user, operation, key),
    )
    return Receipt(*found[0]) if found else None


def keep(tx: Tx, receipt: Receipt) -> None:
    """Whoever does the same request at the same time waits here for the other one, and then there is one already."""
    at = now(tx)
    tx.run("DELETE FROM mere_receipts WHERE at < ?", (stamp(at - RECEIPTS_LAST),))
    given = (receipt.user, receipt.operation, receipt.key, receipt.status)
    kept = tx.run(
        f"INSERT INTO mere_receipts ({_COLUMNS}, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (user_name, operation, request_key) DO NOTHING",
        (*given, receipt.pointer, receipt.content, receipt.request, stamp(at)),
    )
    if not kept:
        raise Repeated

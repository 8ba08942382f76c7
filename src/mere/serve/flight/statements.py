"""A statement from its text to its rows. What one call settles is kept in a handle for the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from mere.serve.flight import parameters
from mere.serve.flight.calls import Call
from mere.serve.flight.seals import Handle
from mere.serve.flight.transactions import Transactions
from mere.serve.protocol.port import Answer, Described, PgError, Session
from mere.serve.protocol.statement import Query
from mere.serve.values import encode

_BYTES = 1 << 20  # that are computed at once


def describe(session: Session, handle: Handle) -> Described:
    statement = _read(session, handle.text)
    described = session.describe(statement, parameters.declared(handle.values))
    if not handle.values:
        return described
    oids = described.parameters
    return session.describe(statement, oids, parameters.values(handle.values, oids))


def settle(session: Session, handle: Handle, transactions: Transactions) -> Handle:
    """A ticket: the commit that the statement reads, and the schema of what it returns, are from here on fixed."""
    about = (handle.user, handle.database, handle.transaction)
    session.begin(transactions.commit(*about) or None)
    described = describe(session, handle)
    commit = transactions.settle(*about, session.commit) if session.commit else ""
    if commit != (session.commit or ""):  # another statement was the first of the transaction
        session.begin(commit)
        described = describe(session, handle)
    assert described.schema is not None
    return replace(handle, commit=commit, oids=described.parameters, schema=described.schema.serialize().to_pybytes())


def schema(handle: Handle) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(handle.schema))


def rows(call: Call, handle: Handle) -> Iterator[pa.RecordBatch]:
    """As they are computed. The client's machine holds them up when it has enough."""
    promised = schema(handle)
    answer = call.work(lambda session: _run(session, handle))
    try:
        batches = answer.batches()
        more = call.work(lambda _: next(batches, None))
        while more is not None:
            for piece in encode.pieces(more):
                call.rows += piece.num_rows
                yield piece if piece.schema.equals(promised) else piece.cast(promised)
            more = call.work(lambda _: _some(batches))
    finally:
        answer.close()


def _run(session: Session, handle: Handle) -> Answer:
    session.begin(handle.commit or None)
    values = parameters.values(handle.values, handle.oids)
    return session.run(_read(session, handle.text), values, handle.oids if handle.values else ())


def _read(session: Session, text: str) -> Query:
    found = session.read(text)
    if len(found) != 1:
        raise PgError("42601", "one statement at a time can be sent")
    (statement,) = found
    if not isinstance(statement, Query):
        raise PgError("0A000", f"{statement.tag or 'an empty statement'} is not supported here: only queries are")
    return statement


def _some(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    """Small ones together, so that there are few of them; None after the last."""
    found, size = list[pa.RecordBatch](), 0
    for batch in batches:
        found.append(batch)
        size += batch.nbytes
        if size >= _BYTES:
            break
    return pa.concat_batches(found) if found else None

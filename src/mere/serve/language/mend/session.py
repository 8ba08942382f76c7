"""What a session knows about itself, as constants: DuckDB does not know who is connected, or to what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from mere.serve.engine import functions
from mere.serve.language.mend.tree import call, cast, number, text
from mere.serve.protocol.port import PgError

if TYPE_CHECKING:
    from mere.serve.language.mend.operators import Context


def tell(name: str, values: Sequence[exp.Expr], context: Context) -> exp.Expr:
    known: dict[str, Callable[[], exp.Expr]] = {
        "mere_commit": lambda: text(context.commit),
        "current_database": lambda: text(context.database),
        "current_catalog": lambda: text(context.database),
        "current_schema": lambda: text(context.schemas[0]) if context.schemas else exp.Null(),
        "current_schemas": lambda: _schemas(values, context),
        "version": lambda: text(context.version),
        "pg_backend_pid": lambda: number(context.pid),
        "pg_cancel_backend": lambda: _signal(name, values, context),
        "pg_terminate_backend": lambda: _signal(name, values, context),
        "current_setting": lambda: _setting(values, context),
        "set_config": lambda: _set_config(values, context),
        "pg_is_in_recovery": exp.false,
        "pg_is_wal_replay_paused": exp.false,
        "pg_client_encoding": lambda: text("UTF8"),
        "getdatabaseencoding": lambda: text("UTF8"),
        "txid_current": lambda: cast(number(1), "BIGINT"),
        "pg_current_xact_id": lambda: cast(number(1), "BIGINT"),
        "pg_advisory_unlock_all": lambda: text(""),  # there are none; pools ask for it when a connection comes back
        "pg_postmaster_start_time": lambda: call("now"),
    }
    if name in ("current_user", "session_user", "user", "current_role"):
        return text(context.user)
    found = known.get(name)
    return found() if found else cast(exp.Null(), "VARCHAR")


def _schemas(values: Sequence[exp.Expr], context: Context) -> exp.Expr:
    implicit = bool(values) and isinstance(values[0], exp.Boolean) and bool(values[0].this)
    names = (list(context.implicit) if implicit else []) + list(context.schemas)
    return cast(exp.Array(expressions=[text(each) for each in names]), "VARCHAR[]")


def _signal(name: str, values: Sequence[exp.Expr], context: Context) -> exp.Expr:
    """To one of one's own connections. How long to wait for its end, Postgres's second argument, is not looked at."""
    end = name == "pg_terminate_backend"
    if not 1 <= len(values) <= 1 + end:
        raise PgError("42883", f"function {name} takes the number of a process")
    asked = [text(context.user), cast(values[0], "INTEGER"), exp.true() if end else exp.false()]
    return call(functions.SIGNAL, *asked)


def _setting(values: Sequence[exp.Expr], context: Context) -> exp.Expr:
    name = plain(values[0], "current_setting") if values else ""
    found = next((value for key, value in context.settings.items() if key.lower() == name.lower()), None)
    if found is not None:
        return text(found)
    if len(values) > 1 and isinstance(values[1], exp.Boolean) and values[1].this:
        return cast(exp.Null(), "VARCHAR")
    raise PgError("42704", f'unrecognized configuration parameter "{name}"')


def _set_config(values: Sequence[exp.Expr], context: Context) -> exp.Expr:
    if len(values) != 3:
        raise PgError("42883", "function set_config takes a name, a value and whether it is local")
    given = [cast(each, type_) for each, type_ in zip(values, ("VARCHAR", "VARCHAR", "BOOLEAN"), strict=True)]
    return call(functions.SET, cast(number(context.session), "BIGINT"), *given)


def plain(node: exp.Expr, function: str) -> str:
    """The text that an argument is; one that has to be computed is refused."""
    inner = node.this if isinstance(node, exp.Cast | exp.Anonymous) and isinstance(node.this, exp.Expr) else node
    if not inner.is_string:
        raise PgError("0A000", f"{function} takes plain texts only")
    return str(inner.name)

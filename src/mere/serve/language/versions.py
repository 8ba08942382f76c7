"""At which ref and snapshot a name in FROM is read: `"main@2h".gold.t`, `gold.t FOR VERSION AS OF …`."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from mere.serve.language import guard
from mere.serve.protocol.port import PgError
from mere.sql.versions import Version

_TIMES = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ, exp.DType.DATE)


def version_of(node: exp.Table) -> Version | None:
    clause = node.args.get("version")
    if clause is None:
        return None
    value, is_time = clause.expression, clause.this == "TIMESTAMP"
    if is_time and isinstance(value, exp.Cast) and value.to.is_type(*_TIMES):
        value = value.this
    if clause.args.get("kind") == "AS OF" and isinstance(value, exp.Literal):
        if value.is_string:
            return Version(time=value.name) if is_time else Version.of_text(value.name)
        if not is_time and value.name.isdecimal():
            return Version(snapshot=int(value.name))
    raise PgError(
        "42601",
        "FOR VERSION AS OF takes a snapshot id or a quoted ref, and FOR TIMESTAMP AS OF a quoted time",
        hint="Parameters and expressions cannot stand there.",
        position=guard.position(node),
    )


def ref_of(node: exp.Table, database: str) -> str | None:
    """The ref that is read, as it was written; None: the database."""
    first = node.args.get("catalog")
    name = None if first is None else first.name if first.quoted else first.name.lower()
    version = version_of(node)
    ref = version.ref_of(name or database) if version else None
    found = ref if ref is not None else name
    return None if found == database else found


def others(tree: exp.Expr, database: str) -> Iterator[str]:
    """The refs that a query reads besides its database."""
    for node in tree.find_all(exp.Table):
        if isinstance(node.this, exp.Identifier) and (ref := ref_of(node, database)) is not None:
            yield ref


def refuse(node: exp.Table, what: str) -> None:
    if node.args.get("version") is not None:
        raise PgError("42809", f'{what} "{node.name}" has no versions', position=guard.position(node))

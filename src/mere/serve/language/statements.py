"""Splits a text into its statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from mere.serve.access import limits
from mere.serve.engine.recent import Recent
from mere.serve.language import copy, fetch, guard, show, views
from mere.serve.language import types as datatypes
from mere.serve.language.query import ParsedQuery
from mere.serve.parse import lexer, syntax
from mere.serve.parse.words import Words
from mere.serve.protocol.port import PgError
from mere.serve.protocol.statement import (
    Begin,
    Close,
    Commit,
    CopyOut,
    Deallocate,
    Declare,
    Discard,
    Execute,
    Explain,
    Nothing,
    Prepare,
    Release,
    Rollback,
    RollbackTo,
    Savepoint,
    Select,
    Set,
    Show,
    Statement,
)

_SHORT = 100_000  # characters of a text that is kept with what was read
_KEPT = 200_000  # characters of all of them: their trees take up to 500 bytes for each
_QUERIES = ("SELECT", "WITH", "VALUES", "TABLE")
_WRITES = (
    "INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "CREATE", "ALTER", "DROP", "GRANT", "REVOKE", "COMMENT",
    "REINDEX", "VACUUM", "ANALYZE", "ANALYSE", "CLUSTER", "REFRESH", "LOCK", "CHECKPOINT", "REASSIGN", "SECURITY",
    "IMPORT",
)  # fmt: skip
_REFUSED = {
    "CALL": ("0A000", "CALL is not supported: there are no procedures"),
    "DO": ("0A000", "DO is not supported: there are no procedural languages"),
    "LISTEN": ("0A000", "LISTEN is not supported"),
    "NOTIFY": ("0A000", "NOTIFY is not supported"),
    "LOAD": ("42501", "permission denied to load a library"),
}


def read(text: str) -> list[Statement]:
    if "\0" in text:
        raise PgError("22021", "invalid byte sequence: the text has a null character in it")
    if len(text) > limits.TEXT:
        raise PgError("54000", f"the text is longer than {limits.TEXT} characters")
    if len(text) >= _SHORT:
        return list(_read(text))
    known = _known.get(text)
    if known is None:
        found = _read(text)
        known = found, [each.parsed.tree for one in found for each in one.all if isinstance(each, Select)]
        _known.keep(text, known, len(text))
    return list(known[0])


def _read(text: str) -> tuple[Statement, ...]:
    found = tuple(_read_one(each, text) for each in _split(lexer.tokens(text)))
    return found or (Nothing("", text),)


# Clients send the same texts again and again. Nobody changes what was read: it can be read once. With the statements
# their trees are kept, which they themselves may forget.
_known: Recent[str, tuple[tuple[Statement, ...], list[exp.Expr]]] = Recent(_KEPT)


def _split(tokens: Sequence[Token]) -> list[list[Token]]:
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            found.append([])
        else:
            found[-1].append(token)
    return [each for each in found if each]


def _read_one(tokens: list[Token], text: str) -> Statement:
    words = Words(tokens, text)
    first = tokens[0]
    if syntax.is_word(first, *_QUERIES) or first.token_type is TokenType.L_PAREN:
        return query(words)
    if syntax.is_word(first, "CREATE", "DROP") and views.is_about_them(words):
        return views.read(words, query)
    if syntax.is_word(first, *_WRITES):
        verb = first.text.upper()
        raise guard.read_only(_written(words, verb), first.start)
    if (refused := _REFUSED.get(first.text.upper())) and syntax.is_word(first, first.text.upper()):
        raise PgError(*refused, position=first.start + 1)
    reader = _READERS.get(first.text.upper()) if syntax.is_word(first, first.text.upper()) else None
    if reader is None:
        raise syntax.unexpected(first)
    words.take()
    return reader(words)


def _written(words: Words, verb: str) -> str:
    """As Postgres names it in its refusal: CREATE TABLE, but INSERT."""
    return f"{verb} {views.kind(words)}".rstrip() if verb in ("CREATE", "ALTER", "DROP") else verb


def query(words: Words) -> Select:
    """What is left of the words, as a query."""
    rest = words.rest()
    if not rest:
        raise syntax.unexpected(None)
    found = ParsedQuery(rest, words.text)
    return Select("SELECT", found.text, found.start, parsed=found)


def _begin(words: Words) -> Statement:
    tag = "START TRANSACTION" if syntax.is_word(words.tokens[0], "START") else "BEGIN"
    words.skip("WORK", "TRANSACTION")
    _modes(words)
    return Begin(tag, *words.span)


def _modes(words: Words) -> None:
    """ISOLATION LEVEL, READ ONLY, DEFERRABLE: whatever is asked for, a transaction sees one commit."""
    known = ("ISOLATION", "LEVEL", "READ", "ONLY", "WRITE", "COMMITTED", "UNCOMMITTED", "REPEATABLE", "SERIALIZABLE",
             "NOT", "DEFERRABLE", ",")  # fmt: skip
    while words.skip(*known):
        pass
    words.end()


def _chain(words: Words) -> bool:
    words.skip("WORK", "TRANSACTION")
    if not words.skip("AND"):
        words.end()
        return False
    chained = not words.skip("NO")
    words.expect("CHAIN")
    words.end()
    return chained


def _commit(words: Words) -> Statement:
    if words.skip("PREPARED"):
        raise PgError("0A000", "COMMIT PREPARED is not supported")
    return Commit("COMMIT", *words.span, chain=_chain(words))


def _rollback(words: Words) -> Statement:
    if words.skip("PREPARED"):
        raise PgError("0A000", "ROLLBACK PREPARED is not supported")
    words.skip("WORK", "TRANSACTION")
    if words.skip("TO"):
        words.skip("SAVEPOINT")
        name = words.name()
        words.end()
        return RollbackTo("ROLLBACK", *words.span, name=name)
    return Rollback("ROLLBACK", *words.span, chain=_chain(words))


def _savepoint(words: Words) -> Statement:
    name = words.name()
    words.end()
    return Savepoint("SAVEPOINT", *words.span, name=name)


def _release(words: Words) -> Statement:
    words.skip("SAVEPOINT")
    name = words.name()
    words.end()
    return Release("RELEASE", *words.span, name=name)


def _set(words: Words) -> Statement:
    local = words.skip("LOCAL")
    session = not local and words.skip("SESSION")
    if session and words.skip("CHARACTERISTICS"):
        words.expect("AS")
        words.expect("TRANSACTION")
        _modes(words)
        return Nothing("SET", *words.span)
    if words.skip("TRANSACTION"):
        _modes(words)
        return Nothing("SET", *words.span)
    if (session and words.skip("AUTHORIZATION")) or words.skip("ROLE"):
        return _set_role(words)
    if words.skip("TIME"):
        words.expect("ZONE")
        return Set("SET", *words.span, name="TimeZone", value=_value(words, "LOCAL"), local=local)
    if words.skip("NAMES"):
        return Set("SET", *words.span, name="client_encoding", value=_value(words), local=local)
    name = _setting(words)
    if not words.skip("TO", "="):
        raise syntax.unexpected(words.peek())
    return Set("SET", *words.span, name=name, value=_value(words), local=local)


def _set_role(words: Words) -> Statement:
    wanted = words.take()
    if not syntax.is_word(wanted, "NONE", "DEFAULT"):
        raise PgError("42501", f'permission denied to set role "{syntax.name(wanted)}"')
    return Nothing("SET", *words.span)


def _setting(words: Words) -> str:
    """A setting may be one of an extension: `app.user`."""
    name = words.name()
    while words.skip("."):
        name += f".{words.name()}"
    return name


def _value(words: Words, *defaults: str) -> str | None:
    if words.skip("DEFAULT", *defaults):
        words.end()
        return None
    values: list[str] = []
    while True:
        sign = "-" if words.skip("-") else ""
        token = words.take()
        if token.token_type is TokenType.INTERVAL:
            token = words.take()
        plain = token.text if syntax.is_string(token) else syntax.name(token)
        values.append(sign + plain)
        if not words.skip(","):
            break
    words.end()
    return ", ".join(values)


def _reset(words: Words) -> Statement:
    if words.skip("ALL"):
        name = None
    elif words.skip("SESSION"):
        words.expect("AUTHORIZATION")
        return Nothing("RESET", *words.span)
    elif words.skip("ROLE"):
        return Nothing("RESET", *words.span)
    elif words.skip("TIME"):
        words.expect("ZONE")
        name = "TimeZone"
    else:
        name = _setting(words)
    words.end()
    return Set("RESET", *words.span, name=name, value=None, local=False)


def _show(words: Words) -> Statement:
    if (listed := show.query(words)) is not None:
        return Select("SHOW", *words.span, parsed=listed)
    if words.skip("TIME"):
        words.expect("ZONE")
        name = "TimeZone"
    elif words.skip("TRANSACTION"):
        words.expect("ISOLATION")
        words.expect("LEVEL")
        name = "transaction_isolation"
    elif words.skip("SESSION"):
        words.expect("AUTHORIZATION")
        name = "session_authorization"
    else:
        name = _setting(words)
    words.end()
    return Show("SHOW", *words.span, name=name)


def _explain(words: Words) -> Statement:
    analyze = False
    if words.skip("("):
        while not words.skip(")"):
            analyze = syntax.is_word(words.take(), "ANALYZE", "ANALYSE") or analyze
    while words.peek() is not None and syntax.is_word(words.peek(), "ANALYZE", "ANALYSE", "VERBOSE"):
        analyze = syntax.is_word(words.take(), "ANALYZE", "ANALYSE") or analyze
    if analyze:
        raise PgError("0A000", "EXPLAIN ANALYZE is not supported", hint="EXPLAIN shows the plan.")
    if words.peek() is not None and syntax.is_word(words.peek(), *_WRITES):
        raise guard.read_only(words.take().text.upper(), 0)
    return Explain("EXPLAIN", *words.span, parsed=query(words).parsed)


def _declare(words: Words) -> Statement:
    name = words.name()
    binary = hold = False
    while not words.skip("CURSOR"):
        if words.skip("BINARY"):
            binary = True
        elif words.skip("NO"):
            words.expect("SCROLL")
        elif not words.skip("SCROLL", "INSENSITIVE", "ASENSITIVE"):
            raise syntax.unexpected(words.peek())
    if words.skip("WITH"):
        hold = True
        words.expect("HOLD")
    elif words.skip("WITHOUT"):
        words.expect("HOLD")
    words.expect("FOR")
    return Declare("DECLARE CURSOR", *words.span, name=name, query=query(words), binary=binary, hold=hold)


def _close(words: Words) -> Statement:
    name = None if words.skip("ALL") else words.name()
    words.end()
    return Close("CLOSE CURSOR ALL" if name is None else "CLOSE CURSOR", *words.span, name=name)


def _copy(words: Words) -> Statement:
    inner, options = copy.read(words, query)
    return CopyOut("COPY", *words.span, query=inner, options=options)


def _prepare(words: Words) -> Statement:
    if words.skip("TRANSACTION"):
        raise PgError("0A000", "PREPARE TRANSACTION is not supported")
    name = words.name()
    types: tuple[int, ...] = ()
    if words.skip("("):
        types = tuple(_type(each) for each in words.items())
    words.expect("AS")
    return Prepare("PREPARE", *words.span, name=name, types=types, query=query(words))


def _type(text: str) -> int:
    oid = datatypes.oid_of(text)
    if oid == 0:
        raise PgError("42704", f'type "{text}" does not exist')
    return oid


def _execute(words: Words) -> Statement:
    name = words.name()
    values: list[str | None] = []
    if words.skip("("):
        while not words.skip(")"):
            values.append(_argument(words))
            words.skip(",")
    words.end()
    return Execute("EXECUTE", *words.span, name=name, values=tuple(values))


def _argument(words: Words) -> str | None:
    sign = "-" if words.skip("-") else ""
    token = words.take()
    is_literal = syntax.is_string(token) or token.token_type is TokenType.NUMBER
    if not is_literal and not syntax.is_word(token, "NULL", "TRUE", "FALSE"):
        raise PgError("0A000", "EXECUTE takes literals only", position=token.start + 1)
    if syntax.is_word(token, "NULL"):
        return None
    if words.skip("::"):  # what it is cast to is known from PREPARE
        words.name()
    return sign + (token.text if is_literal else token.text.lower())


def _deallocate(words: Words) -> Statement:
    words.skip("PREPARE")
    name = None if words.skip("ALL") else words.name()
    words.end()
    return Deallocate("DEALLOCATE ALL" if name is None else "DEALLOCATE", *words.span, name=name)


def _discard(words: Words) -> Statement:
    what = words.take().text.upper()
    what = "TEMP" if what == "TEMPORARY" else what
    if what not in ("ALL", "PLANS", "SEQUENCES", "TEMP"):
        raise syntax.unexpected(words.tokens[-1])
    words.end()
    return Discard(f"DISCARD {what}", *words.span, what=what)


def _unlisten(words: Words) -> Statement:
    return Nothing("UNLISTEN", *words.span)


_READERS: dict[str, Callable[[Words], Statement]] = {
    "ABORT": _rollback,
    "BEGIN": _begin,
    "CLOSE": _close,
    "COMMIT": _commit,
    "COPY": _copy,
    "DEALLOCATE": _deallocate,
    "DECLARE": _declare,
    "DISCARD": _discard,
    "END": _commit,
    "EXECUTE": _execute,
    "EXPLAIN": _explain,
    "FETCH": fetch.read,
    "MOVE": fetch.read,
    "PREPARE": _prepare,
    "RELEASE": _release,
    "RESET": _reset,
    "ROLLBACK": _rollback,
    "SAVEPOINT": _savepoint,
    "SET": _set,
    "SHOW": _show,
    "START": _begin,
    "UNLISTEN": _unlisten,
}

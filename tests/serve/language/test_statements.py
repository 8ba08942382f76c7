"""What a text is read as: the kinds of statements, and what each kind needs."""

# ruff: noqa: E501
from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mere.serve.language import statements
from mere.serve.protocol.port import PgError
from mere.serve.protocol.statement import (
    Begin,
    Close,
    Commit,
    CopyOptions,
    CopyOut,
    Deallocate,
    Declare,
    Discard,
    Execute,
    Explain,
    Fetch,
    Move,
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
    WithQuery,
)


def read_one(text: str) -> Statement:
    (statement,) = statements.read(text)
    return statement


def about(statement: Statement) -> dict[str, Any]:
    """What its class has besides the text and the query."""
    names = {each.name for each in dataclasses.fields(statement)} - {"tag", "text", "start", "parsed", "query"}
    return {name: getattr(statement, name) for name in names}


@pytest.mark.parametrize(
    ("text", "kind", "tag", "expected"),
    [
        ("select 1", Select, "SELECT", {}),
        ("  SELECT 1 ; ", Select, "SELECT", {}),
        ("with x as (select 1) select * from x", Select, "SELECT", {}),
        ("values (1)", Select, "SELECT", {}),
        ("table gold.orders", Select, "SELECT", {}),
        ("(select 1)", Select, "SELECT", {}),
        ("explain select 1", Explain, "EXPLAIN", {}),
        ("explain (format text, verbose) select 1", Explain, "EXPLAIN", {}),
        ("show search_path", Show, "SHOW", {"name": "search_path"}),
        ("show time zone", Show, "SHOW", {"name": "TimeZone"}),
        ("SHOW transaction isolation level", Show, "SHOW", {"name": "transaction_isolation"}),
        ("show all", Show, "SHOW", {"name": "all"}),
        ("begin", Begin, "BEGIN", {}),
        ("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY, NOT DEFERRABLE", Begin, "BEGIN", {}),
        ("start transaction read write", Begin, "START TRANSACTION", {}),
        ("commit", Commit, "COMMIT", {"chain": False}),
        ("end work", Commit, "COMMIT", {"chain": False}),
        ("commit and chain", Commit, "COMMIT", {"chain": True}),
        ("commit and no chain", Commit, "COMMIT", {"chain": False}),
        ("rollback", Rollback, "ROLLBACK", {"chain": False}),
        ("abort", Rollback, "ROLLBACK", {"chain": False}),
        ('rollback to savepoint "S 1"', RollbackTo, "ROLLBACK", {"name": "S 1"}),
        ("savepoint S1", Savepoint, "SAVEPOINT", {"name": "s1"}),
        ("release savepoint s1", Release, "RELEASE", {"name": "s1"}),
        ("set application_name = 'x y'", Set, "SET", {"name": "application_name", "value": "x y", "local": False}),
        ("set local TimeZone to UTC", Set, "SET", {"name": "timezone", "value": "utc", "local": True}),
        ("set session search_path to gold, \"Silver\"", Set, "SET",
         {"name": "search_path", "value": "gold, Silver", "local": False}),
        ("set time zone 'Europe/Vienna'", Set, "SET", {"name": "TimeZone", "value": "Europe/Vienna", "local": False}),
        ("set time zone local", Set, "SET", {"name": "TimeZone", "value": None, "local": False}),
        ("set names 'utf8'", Set, "SET", {"name": "client_encoding", "value": "utf8", "local": False}),
        ("set extra_float_digits = -3", Set, "SET", {"name": "extra_float_digits", "value": "-3", "local": False}),
        ("set statement_timeout to default", Set, "SET", {"name": "statement_timeout", "value": None, "local": False}),
        ("set my.own = 'x'", Set, "SET", {"name": "my.own", "value": "x", "local": False}),
        ("reset search_path", Set, "RESET", {"name": "search_path", "value": None, "local": False}),
        ("reset all", Set, "RESET", {"name": None, "value": None, "local": False}),
        ("set transaction isolation level serializable", Nothing, "SET", {}),
        ("set session characteristics as transaction read only", Nothing, "SET", {}),
        ("set role none", Nothing, "SET", {}),
        ("unlisten *", Nothing, "UNLISTEN", {}),
        ("declare C cursor for select 1", Declare, "DECLARE CURSOR",
         {"name": "c", "binary": False, "hold": False}),
        ('declare "C d" binary insensitive no scroll cursor with hold for values (1)', Declare, "DECLARE CURSOR",
         {"name": "C d", "binary": True, "hold": True}),
        ("declare c scroll cursor without hold for select 1", Declare, "DECLARE CURSOR",
         {"name": "c", "binary": False, "hold": False}),
        ("fetch c", Fetch, "FETCH", {"name": "c", "count": 1, "absolute": False}),
        ("fetch next from c", Fetch, "FETCH", {"name": "c", "count": 1, "absolute": False}),
        ("fetch 100 in c", Fetch, "FETCH", {"name": "c", "count": 100, "absolute": False}),
        ("fetch forward 5 from c", Fetch, "FETCH", {"name": "c", "count": 5, "absolute": False}),
        ("fetch forward c", Fetch, "FETCH", {"name": "c", "count": 1, "absolute": False}),
        ("fetch all from c", Fetch, "FETCH", {"name": "c", "count": None, "absolute": False}),
        ("fetch forward all in c", Fetch, "FETCH", {"name": "c", "count": None, "absolute": False}),
        ("fetch backward 2 from c", Fetch, "FETCH", {"name": "c", "count": -2, "absolute": False}),
        ("fetch prior from c", Fetch, "FETCH", {"name": "c", "count": -1, "absolute": False}),
        ("fetch -3 from c", Fetch, "FETCH", {"name": "c", "count": -3, "absolute": False}),
        ("fetch first from c", Fetch, "FETCH", {"name": "c", "count": 1, "absolute": True}),
        ("fetch last from c", Fetch, "FETCH", {"name": "c", "count": -1, "absolute": True}),
        ("fetch absolute 7 from c", Fetch, "FETCH", {"name": "c", "count": 7, "absolute": True}),
        ("fetch relative 0 from c", Fetch, "FETCH", {"name": "c", "count": 0, "absolute": False}),
        ("move 3 in c", Move, "MOVE", {"name": "c", "count": 3, "absolute": False}),
        ("fetch first", Fetch, "FETCH", {"name": "first", "count": 1, "absolute": False}),
        ("close c", Close, "CLOSE CURSOR", {"name": "c"}),
        ("close all", Close, "CLOSE CURSOR ALL", {"name": None}),
        ("copy gold.orders to stdout", CopyOut, "COPY", {"options": CopyOptions()}),
        ("copy (select ')' from gold.orders) to stdout with (format csv, header, delimiter ';', null '-', force_quote (a, b))",
         CopyOut, "COPY",
         {"options": CopyOptions("csv", ";", "-", True, force_quote=frozenset("ab"))}),
        ("copy gold.orders (id, customer) to stdout (format 'binary')", CopyOut, "COPY", {"options": CopyOptions("binary")}),
        ("copy gold.orders to stdout csv header quote as '|'", CopyOut, "COPY",
         {"options": CopyOptions("csv", ",", "", True, "|", "|")}),
        ("copy gold.orders to stdout (header false, encoding 'UTF-8')", CopyOut, "COPY", {"options": CopyOptions()}),
        ("prepare p (int, text, timestamp with time zone, numeric(10, 2), int[]) as select $1", Prepare, "PREPARE",
         {"name": "p", "types": (23, 25, 1184, 1700, 1007)}),
        ("prepare p as select 1", Prepare, "PREPARE", {"name": "p", "types": ()}),
        ("execute p", Execute, "EXECUTE", {"name": "p", "values": ()}),
        ("execute p (1, -2.5, 'it''s', NULL, true, 'x'::text)", Execute, "EXECUTE",
         {"name": "p", "values": ("1", "-2.5", "it's", None, "true", "x")}),
        ("deallocate prepare p", Deallocate, "DEALLOCATE", {"name": "p"}),
        ("deallocate all", Deallocate, "DEALLOCATE ALL", {"name": None}),
        ("discard all", Discard, "DISCARD ALL", {"what": "ALL"}),
        ("discard temporary", Discard, "DISCARD TEMP", {"what": "TEMP"}),
        ("", Nothing, "", {}),
        (" ; ; -- nothing", Nothing, "", {}),
    ],
)  # fmt: skip
def test_a_statement_is_read(text: str, kind: type[Statement], tag: str, expected: dict[str, Any]) -> None:
    statement = read_one(text)
    assert (type(statement), statement.tag, about(statement)) == (kind, tag, expected)


def test_a_text_of_several_statements_is_split() -> None:
    text = "select ';' ; begin; select $$a;b$$, \"c;d\" /* ; */; -- ;\n commit"
    found = statements.read(text)
    assert [each.tag for each in found] == ["SELECT", "BEGIN", "SELECT", "COMMIT"]
    assert [text[each.start : each.start + len(each.text)] for each in found] == [each.text for each in found]
    assert found[2].text == 'select $$a;b$$, "c;d"'


def test_the_query_of_a_cursor_and_of_a_copy_is_a_statement_of_its_own() -> None:
    for text in ("declare c cursor for select 1", "copy (select 1) to stdout", "prepare p as select 1"):
        statement = read_one(text)
        assert isinstance(statement, WithQuery)
        inner = statement.query
        assert (type(inner), inner.tag, inner.text) == (Select, "SELECT", "select 1")


@pytest.mark.parametrize(
    ("text", "state", "position"),
    [
        ("selec 1", "42601", 1),
        ("select 1 1 1", "42601", 10),
        ("begin nonsense", "42601", 7),
        ("select 1; begin x", "42601", 17),
        ("fetch ten from c", "42601", 11),
        ("set x", "42601", 0),
        ("copy gold.orders to stdout (format xml)", "22023", 0),
        ("copy gold.orders to stdout (quote 'x')", "0A000", 0),
        ("copy gold.orders to stdout (nonsense 1)", "42601", 0),
        ("copy gold.orders to stdout (format csv, delimiter 'ab')", "0A000", 0),
        ("prepare p (nonsense) as select 1", "42704", 0),
        ("execute p (1 + 1)", "0A000", 14),
        ("execute p (x)", "0A000", 12),
        ("discard everything", "42601", 9),
        ("select 'a\0b'", "22021", 0),
    ],
)
def test_what_is_no_statement_is_refused_with_its_position(text: str, state: str, position: int) -> None:
    with pytest.raises(PgError) as caught:
        statements.read(text)
    assert caught.value.sqlstate == state
    assert not position or caught.value.position == position

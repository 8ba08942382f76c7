"""What a text is read as: the kinds of statements, and what each kind needs."""

# ruff: noqa: E501
from __future__ import annotations

from typing import Any

import pytest

from mere.serve.language import statements
from mere.serve.language.copy_options import Options
from mere.serve.protocol.port import Kind, PgError, Statement


def read_one(text: str) -> Statement:
    (statement,) = statements.read(text)
    return statement


def about(statement: Statement) -> dict[str, Any]:
    return {name: value for name, value in statement.about.items() if name not in ("query", "statement")}


@pytest.mark.parametrize(
    ("text", "kind", "tag", "expected"),
    [
        ("select 1", Kind.QUERY, "SELECT", {}),
        ("  SELECT 1 ; ", Kind.QUERY, "SELECT", {}),
        ("with x as (select 1) select * from x", Kind.QUERY, "SELECT", {}),
        ("values (1)", Kind.QUERY, "SELECT", {}),
        ("table gold.orders", Kind.QUERY, "SELECT", {}),
        ("(select 1)", Kind.QUERY, "SELECT", {}),
        ("explain select 1", Kind.QUERY, "EXPLAIN", {"explain": True}),
        ("explain (format text, verbose) select 1", Kind.QUERY, "EXPLAIN", {"explain": True}),
        ("show search_path", Kind.QUERY, "SHOW", {"show": "search_path"}),
        ("show time zone", Kind.QUERY, "SHOW", {"show": "TimeZone"}),
        ("SHOW transaction isolation level", Kind.QUERY, "SHOW", {"show": "transaction_isolation"}),
        ("show all", Kind.QUERY, "SHOW", {"show": "all"}),
        ("begin", Kind.BEGIN, "BEGIN", {}),
        ("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY, NOT DEFERRABLE", Kind.BEGIN, "BEGIN", {}),
        ("start transaction read write", Kind.BEGIN, "START TRANSACTION", {}),
        ("commit", Kind.COMMIT, "COMMIT", {"chain": False}),
        ("end work", Kind.COMMIT, "COMMIT", {"chain": False}),
        ("commit and chain", Kind.COMMIT, "COMMIT", {"chain": True}),
        ("commit and no chain", Kind.COMMIT, "COMMIT", {"chain": False}),
        ("rollback", Kind.ROLLBACK, "ROLLBACK", {"chain": False}),
        ("abort", Kind.ROLLBACK, "ROLLBACK", {"chain": False}),
        ('rollback to savepoint "S 1"', Kind.ROLLBACK, "ROLLBACK", {"savepoint": "S 1"}),
        ("savepoint S1", Kind.SAVEPOINT, "SAVEPOINT", {"name": "s1"}),
        ("release savepoint s1", Kind.RELEASE, "RELEASE", {"name": "s1"}),
        ("set application_name = 'x y'", Kind.SET, "SET", {"name": "application_name", "value": "x y", "local": False}),
        ("set local TimeZone to UTC", Kind.SET, "SET", {"name": "timezone", "value": "utc", "local": True}),
        ("set session search_path to gold, \"Silver\"", Kind.SET, "SET",
         {"name": "search_path", "value": "gold, Silver", "local": False}),
        ("set time zone 'Europe/Vienna'", Kind.SET, "SET", {"name": "TimeZone", "value": "Europe/Vienna", "local": False}),
        ("set time zone local", Kind.SET, "SET", {"name": "TimeZone", "value": None, "local": False}),
        ("set names 'utf8'", Kind.SET, "SET", {"name": "client_encoding", "value": "utf8", "local": False}),
        ("set extra_float_digits = -3", Kind.SET, "SET", {"name": "extra_float_digits", "value": "-3", "local": False}),
        ("set statement_timeout to default", Kind.SET, "SET", {"name": "statement_timeout", "value": None, "local": False}),
        ("set my.own = 'x'", Kind.SET, "SET", {"name": "my.own", "value": "x", "local": False}),
        ("reset search_path", Kind.SET, "RESET", {"name": "search_path", "value": None, "local": False}),
        ("reset all", Kind.SET, "RESET", {"name": None, "value": None, "local": False}),
        ("set transaction isolation level serializable", Kind.NOTHING, "SET", {}),
        ("set session characteristics as transaction read only", Kind.NOTHING, "SET", {}),
        ("set role none", Kind.NOTHING, "SET", {}),
        ("unlisten *", Kind.NOTHING, "UNLISTEN", {}),
        ("declare C cursor for select 1", Kind.DECLARE, "DECLARE CURSOR",
         {"name": "c", "binary": False, "scroll": False, "hold": False}),
        ('declare "C d" binary insensitive no scroll cursor with hold for values (1)', Kind.DECLARE, "DECLARE CURSOR",
         {"name": "C d", "binary": True, "scroll": False, "hold": True}),
        ("declare c scroll cursor without hold for select 1", Kind.DECLARE, "DECLARE CURSOR",
         {"name": "c", "binary": False, "scroll": True, "hold": False}),
        ("fetch c", Kind.FETCH, "FETCH", {"name": "c", "count": 1}),
        ("fetch next from c", Kind.FETCH, "FETCH", {"name": "c", "count": 1}),
        ("fetch 100 in c", Kind.FETCH, "FETCH", {"name": "c", "count": 100}),
        ("fetch forward 5 from c", Kind.FETCH, "FETCH", {"name": "c", "count": 5}),
        ("fetch forward c", Kind.FETCH, "FETCH", {"name": "c", "count": 1}),
        ("fetch all from c", Kind.FETCH, "FETCH", {"name": "c", "count": None}),
        ("fetch forward all in c", Kind.FETCH, "FETCH", {"name": "c", "count": None}),
        ("fetch backward 2 from c", Kind.FETCH, "FETCH", {"name": "c", "count": -2}),
        ("fetch prior from c", Kind.FETCH, "FETCH", {"name": "c", "count": -1}),
        ("fetch -3 from c", Kind.FETCH, "FETCH", {"name": "c", "count": -3}),
        ("fetch first from c", Kind.FETCH, "FETCH", {"name": "c", "count": 1, "absolute": True}),
        ("fetch last from c", Kind.FETCH, "FETCH", {"name": "c", "count": -1, "absolute": True}),
        ("fetch absolute 7 from c", Kind.FETCH, "FETCH", {"name": "c", "count": 7, "absolute": True}),
        ("fetch relative 0 from c", Kind.FETCH, "FETCH", {"name": "c", "count": 0}),
        ("move 3 in c", Kind.FETCH, "MOVE", {"name": "c", "count": 3}),
        ("fetch first", Kind.FETCH, "FETCH", {"name": "first", "count": 1}),
        ("close c", Kind.CLOSE, "CLOSE CURSOR", {"name": "c"}),
        ("close all", Kind.CLOSE, "CLOSE CURSOR ALL", {"name": None}),
        ("copy gold.orders to stdout", Kind.COPY_OUT, "COPY", {"options": Options()}),
        ("copy (select ')' from gold.orders) to stdout with (format csv, header, delimiter ';', null '-', force_quote (a, b))",
         Kind.COPY_OUT, "COPY",
         {"options": Options("csv", ";", "-", True, force_quote=frozenset("ab"))}),
        ("copy gold.orders (id, customer) to stdout (format 'binary')", Kind.COPY_OUT, "COPY", {"options": Options("binary")}),
        ("copy gold.orders to stdout csv header quote as '|'", Kind.COPY_OUT, "COPY",
         {"options": Options("csv", ",", "", True, "|", "|")}),
        ("copy gold.orders to stdout (header false, encoding 'UTF-8')", Kind.COPY_OUT, "COPY", {"options": Options()}),
        ("prepare p (int, text, timestamp with time zone, numeric(10, 2), int[]) as select $1", Kind.PREPARE, "PREPARE",
         {"name": "p", "types": (23, 25, 1184, 1700, 1007)}),
        ("prepare p as select 1", Kind.PREPARE, "PREPARE", {"name": "p", "types": ()}),
        ("execute p", Kind.EXECUTE, "EXECUTE", {"name": "p", "values": ()}),
        ("execute p (1, -2.5, 'it''s', NULL, true, 'x'::text)", Kind.EXECUTE, "EXECUTE",
         {"name": "p", "values": ("1", "-2.5", "it's", None, "true", "x")}),
        ("deallocate prepare p", Kind.DEALLOCATE, "DEALLOCATE", {"name": "p"}),
        ("deallocate all", Kind.DEALLOCATE, "DEALLOCATE ALL", {"name": None}),
        ("discard all", Kind.DISCARD, "DISCARD ALL", {"what": "ALL"}),
        ("discard temporary", Kind.DISCARD, "DISCARD TEMP", {"what": "TEMP"}),
        ("", Kind.NOTHING, "", {}),
        (" ; ; -- nothing", Kind.NOTHING, "", {}),
    ],
)  # fmt: skip
def test_a_statement_is_read(text: str, kind: Kind, tag: str, expected: dict[str, Any]) -> None:
    statement = read_one(text)
    assert (statement.kind, statement.tag, about(statement)) == (kind, tag, expected)


def test_a_text_of_several_statements_is_split() -> None:
    text = "select ';' ; begin; select $$a;b$$, \"c;d\" /* ; */; -- ;\n commit"
    found = statements.read(text)
    assert [each.tag for each in found] == ["SELECT", "BEGIN", "SELECT", "COMMIT"]
    assert [text[each.start : each.start + len(each.text)] for each in found] == [each.text for each in found]
    assert found[2].text == 'select $$a;b$$, "c;d"'


def test_the_query_of_a_cursor_and_of_a_copy_is_a_statement_of_its_own() -> None:
    for text in ("declare c cursor for select 1", "copy (select 1) to stdout", "prepare p as select 1"):
        inner = read_one(text).about["statement"]
        assert (inner.kind, inner.tag, inner.text) == (Kind.QUERY, "SELECT", "select 1")


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

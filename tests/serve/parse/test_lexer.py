"""Texts are cut as Postgres cuts them: a real Postgres and the gateway are asked the same, with the same parameters."""

from __future__ import annotations

import random
from collections.abc import Iterator

import psycopg
import pytest
from sqlglot.tokenizer_core import TokenType

from mere.serve.parse import lexer
from mere.serve.protocol.port import PgError

Answer = tuple[str, list[list[bytes | None]]]

TEXTS = [
    "select $1::int,$2::text",
    "select 1 where 7 in ($1,$1)",
    "select coalesce($1,$2)",
    "select $1::int+$1::int,$2||$2",
    "select $1::int-$1::int*$1::int",
    "select array[$1::int,$1::int]",
    "select $1::int::text,$2::text::text",
    "select $$a$$,$1::int,$$b$$",
    "select $x$a$$b$x$,$_1$c$_1$,$é$d$é$",
    "select $1::int--$2\n,$2::text",
    "select/**/$1::int/*$2*/,$2::text",
    "select 'a$1','$1,$2',$2::text",
    "select 'a'\n'b', E'a'\n  -- more\n 'b\\n', 'a' -- x\n 'b'",
    "select 'a' 'b'",
    "select 'it''s', E'it\\'s', E'\\x41\\101\\u00e9\\U0001F600', E'\\uD83D\\uDE00'",
    "select U&'\\0441\\043B\\+01F600', U&'d!0061t!!' UESCAPE '!', u&'\\\\'",
    'select 1 as U&"d\\0061t", 2 as "a""b"',
    "select E'\\xff'",
    "select E'\\000'",
    "select U&'\\00'",
    "select 1_000, 0x1F, 0o17, 0b101, 1_000.5, .5, 1., 1e3, 1.5E-2, 0xdead_beef",
    "select 1__0",
    "select 1a",
    "select 1.5a",
    "select 0x",
    "select 0xg",
    "select 1e",
    "select $1a",
    "select $1_0",
    "select 1<-1, 2*-3, 2--3\n, 3-+4, 1>=-1, 2<>-2, 1+-+-1",
    "select 1==1",
    "select 1 <=> 1",
    "select 1 ?? 1",
    "select 1 |> 2",
    "select 1 !< 2",
    "select 'a'!~'b', 'a'!~*'A', 'a'!~~'a', 'a'!~~*'A', 'a'~'a', 'a'~~'a'",
    "select 2^-1, |/4, 5%-3, 5#3, 5&3, 5|3, ~5, 1<<3, 8>>1, 1<<-1",
    "select 1/*a/*b*/c*/+2",
    "select 1/*a",
    "select 1 -/**/ 2, 3 */**/ 4",
    "select 'a",
    "select E'a\\'",
    'select "a',
    'select ""',
    "select $$a",
    "select $x",
    "select {1}",
    "select 1 `` 2",
    "select 1\\2",
    "select 1;",
    "select 1..2",
    "select a.* from (select 1 as a$b, 2 as é) as a",
    "select 'x' as order_by, 1 as \"group\" order   by 1",
    "select count(*) from (select 1) as t group\n by ()",
    "select cast(1.5 as double   precision), 'a'::character varying",
    "select n'abc' as a, N'd' as b",
    "select lımıt from (select 1 as lımıt) as t",
]


def answer(connection: psycopg.Connection, text: str) -> Answer:
    """What comes back, as bytes, or the error's code."""
    found = connection.pgconn.exec_params(text.encode(), [b"7", b"x"], [23, 25])
    if state := found.error_field(psycopg.pq.DiagnosticField.SQLSTATE):
        return state.decode(), []
    rows = [[found.get_value(row, column) for column in range(found.nfields)] for row in range(found.ntuples)]
    names = [found.fname(column) for column in range(found.nfields)]
    return "", [names, *rows]


@pytest.fixture(scope="module")
def real(shop_in_postgres: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(shop_in_postgres, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def ours(shop_in_lake: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(shop_in_lake, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_means_the_same_to_postgres_and_to_the_gateway(
    text: str, real: psycopg.Connection, ours: psycopg.Connection
) -> None:
    assert answer(ours, text) == answer(real, text)


PIECES = [
    "$1", "$2", "$1::int", "$2::text", "'a'", "'$1'", "'it''s'", "E'\\n'", "$$q$$", "$t$q$$q$t$", "U&'\\0061'",
    "1", "1.5", ".5", "1e2", "0x1F", "1_0", "-1", "+2", "- 3", "'a'||'b'", "$2||'x'", "(1)", "null", "true",
    "7 in ($1,8)", "coalesce($1,2)", "array[$1,2]", "1<-1", "2*-3", "$1-$1", "$1+-$1", "'a'~'a'", "'a'!~'a'", "s.c",
    "\"s\".c", "c", "case when c=1 then $2 else 'z' end", "c::text", "c::numeric(5,2)", "length($2)",
    "$1=7", "$1<>7", "$1>=7", "$1%2",
]  # fmt: skip
GAPS = ["", "", "", " ", "\n", "\t", "/**/", "/*$1*/", "--x\n", "/*/*$$*/*/", " -- '\n"]


def generated(seed: int) -> str:
    draw = random.Random(seed)
    items = [
        draw.choice(PIECES) + draw.choice(["", "", f" as a{at}", f' as "A {at}"']) for at in range(draw.randint(1, 5))
    ]

    def gap() -> str:
        return draw.choice(GAPS)

    listed = ("," + gap()).join(item + gap() for item in items)
    return (
        f"select{gap() or ' '}{listed}{gap() or ' '}from{gap() or ' '}(select{gap() or ' '}1{gap() or ' '}as c)s{gap()}"
    )


@pytest.mark.parametrize("block", range(10))
def test_generated_texts_mean_the_same_too(block: int, real: psycopg.Connection, ours: psycopg.Connection) -> None:
    texts = [generated(seed) for seed in range(40 * block, 40 * block + 40)]
    differ = {text: (answer(ours, text), answer(real, text)) for text in texts}
    assert {text: both for text, both in differ.items() if both[0] != both[1]} == {}


def test_two_parameters_without_a_space_are_two_parameters() -> None:
    found = lexer.tokens("($1,$2)")
    kinds = [TokenType.PARAMETER, TokenType.NUMBER]
    assert [each.token_type for each in found] == [
        TokenType.L_PAREN,
        *kinds,
        TokenType.COMMA,
        *kinds,
        TokenType.R_PAREN,
    ]


def test_an_error_has_the_place_of_what_is_wrong() -> None:
    with pytest.raises(PgError, match='trailing junk after parameter at or near "\\$1x"') as error:
        lexer.tokens("select 2,\n $1x")
    assert error.value.position == 12

"""What is found out about text files without Spark: their headers, and the lines on which bad records stand."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from mere.errors import RunFailed
from mere.pipeline.load.formats.headers import (
    charset_of,
    check_delimiter,
    check_format,
    check_quotes,
    first_line,
    header_of,
    values_of,
    well_formed,
)
from mere.pipeline.load.formats.lines import lines_of
from mere.sources.source import Format, Text

COMMA = Text()
BACKSLASH = Text(escape="\\")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.csv"


# lines


def test_lines_are_counted_from_one_with_header_and_blank_lines(file: Path) -> None:
    file.write_bytes(b"id,name\n\n1,a\n2,b\n\n2,b\n3,c")
    assert lines_of(file, ["2,b", "3,c"], COMMA) == {"2,b": [4], "3,c": [7]}


def test_a_text_is_found_as_often_as_it_is_wanted(file: Path) -> None:
    file.write_bytes(b"x\ny\nx\nx\n")
    assert lines_of(file, ["x", "x"], COMMA) == {"x": [1, 3]}
    assert lines_of(file, [], COMMA) == {}
    assert lines_of(file, ["not there"], COMMA) == {}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_where_spark_ends_them(file: Path, end: str) -> None:
    file.write_bytes(end.join(["\ufeffa", "b\u2028b\x0b\x0c\x85", "c", "d"]).encode())
    assert lines_of(file, ["a", "b\u2028b\x0b\x0c\x85", "d"], COMMA) == {
        "a": [1],
        "b\u2028b\x0b\x0c\x85": [2],
        "d": [4],
    }


def test_an_end_of_two_characters_may_lie_between_two_pieces(file: Path) -> None:
    long = b"x" * ((1 << 20) + 2)
    file.write_bytes(long + b"\r\n" + b"y\r\n" + long + long + b"\rz")
    assert lines_of(file, ["y", "z"], COMMA) == {"y": [2], "z": [4]}


def test_a_packed_file_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a\nb\n") + gzip.compress(b"c\n"))
    assert lines_of(path, ["c"], COMMA) == {"c": [3]}


def test_lines_are_compared_as_text_of_their_encoding(file: Path) -> None:
    file.write_bytes("ä\nö\n".encode("cp1252"))
    assert lines_of(file, ["ö"], Text(encoding="cp1252")) == {"ö": [2]}
    file.write_bytes(b"a\nb\xff\xfe\xe2\x82b\n")
    assert lines_of(file, ["b\ufffd\ufffd\ufffdb"], COMMA) == {"b\ufffd\ufffd\ufffdb": [2]}


# headers


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("a,b", ["a", "b"]),
        ("", [""]),
        ("a,,", ["a", "", ""]),
        ('"a","b, c"', ["a", "b, c"]),
        ('"say ""hi""",x', ['say "hi"', "x"]),
        ('5" pipe,x', ['5" pipe', "x"]),
        (' a , "b"', [" a ", ' "b"']),
        ('"open,x', ['"open', "x"]),
    ],
)
def test_a_header_is_cut_as_spark_cuts_lines(line: str, values: list[str]) -> None:
    assert values_of(line, COMMA) == values


def test_a_header_is_cut_by_what_is_declared() -> None:
    assert values_of("a::b:c::'d::e'", Text(delimiter="::", quote="'")) == ["a", "b:c", "d::e"]
    assert values_of(r'"a \"b\"",c', BACKSLASH) == ['a "b"', "c"]
    assert values_of('"a","b"', Text(quote="")) == ['"a"', '"b"']


@pytest.mark.parametrize(
    ("line", "fine"),
    [
        ("", True),
        ("a,b", True),
        ('"a",b', True),
        ('"a ""b""",c', True),
        ('5" pipe,x', True),
        ('""', True),
        ('"a,b', False),
        ('a,"b', False),
        ('"a"b,c', False),
        ('"a""', False),
        ('"a",b\u2028', True),
        ('"a"\u2028', False),
    ],
)
def test_quotes_are_closed_or_not(line: str, fine: bool) -> None:
    assert bool(re.search(well_formed(COMMA), line)) is fine


def test_quotes_may_be_escaped_otherwise() -> None:
    assert re.search(well_formed(BACKSLASH), r'"a \"b\" \\",c')
    assert not re.search(well_formed(BACKSLASH), r'"a \",c')


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'id,note\n1,"two\nlines, ""q"""\n\n2,5" pipe\r\n3,""\r4,"x"', None),
        (b'id,note\n1,a\n2,"open\n3,x\n', 3),
        (b'id,note\n1,"a"b\n', 2),
        (b'id,note\n1,"a\n2,"b"\n', 2),
    ],
)
def test_where_values_go_over_lines_all_quotes_are_closed(file: Path, content: bytes, line: int | None) -> None:
    file.write_bytes(content)
    if line is None:
        check_quotes(file, "a.csv", COMMA)
    else:
        with pytest.raises(RunFailed, match=f"a.csv:{line}: a quote is not closed"):
            check_quotes(file, "a.csv", COMMA)


def test_the_first_line_is_the_first_that_is_not_blank(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf\n  \nid,name\r\n1,a\n")
    assert first_line(file, "a.csv", COMMA) == "id,name"
    file.write_bytes(b"\n\r\n \n")
    assert first_line(file, "a.csv", COMMA) is None


def test_a_header_in_another_encoding_is_an_error(file: Path) -> None:
    file.write_bytes("größe,x\n".encode("latin-1"))
    with pytest.raises(RunFailed, match=r"a.csv is not utf-8") as failed:
        first_line(file, "a.csv", COMMA)
    assert "encoding" in str(failed.value)
    assert first_line(file, "a.csv", Text(encoding="latin-1")) == "größe,x"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"PAR1....", "is Parquet, not csv"),
        ("a.csv", gzip.compress(b"a", mtime=0), "is gzip, not csv"),
        ("a.csv", b"\x28\xb5\x2f\xfd", "is zstd"),
        ("a.csv", b"PK\x03\x04", "zip"),
        ("a.csv", "a".encode("utf-16"), "UTF-16"),
        ("a.csv.gz", b"id,name\n", "is not gzip"),
    ],
)
def test_a_file_that_is_something_else_is_an_error(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(RunFailed, match=message):
        check_format(path, name, Format.CSV)


def test_a_packed_file_that_is_cut_off_at_its_start_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"id,name\n1,a\n")[:12])
    with pytest.raises(RunFailed, match=r"a.csv.gz cannot be unpacked"):
        first_line(path, path.name, COMMA)


@pytest.mark.parametrize("line", ["id;name;amount", "id\tname\tamount", "id|name|amount"])
@pytest.mark.parametrize("expected", [[], ["name", "amount"]])
def test_a_wrong_delimiter_is_told_with_the_one_that_fits(line: str, expected: list[str]) -> None:
    with pytest.raises(RunFailed, match=f"delimiter: {re.escape(repr(line[2]))}"):
        check_delimiter(header_of(line, COMMA), "a.csv", COMMA, expected)


def test_a_header_may_have_one_column_or_other_signs_in_it() -> None:
    for line, expected in [("id", []), ("id", ["id"]), ("id;x,name", ["name"]), ("a;b,c", [])]:
        check_delimiter(header_of(line, COMMA), "a.csv", COMMA, expected)


# encodings


def test_encodings_of_one_byte_a_character_are_known() -> None:
    assert charset_of("UTF8", "x") is None
    windows = charset_of("windows-1252", "x")
    assert windows is not None
    assert windows.upper[:3] == "€\ufffd‚"
    for other in ("utf-16", "shift_jis", "gb18030", "cp037", "no-such-thing"):
        with pytest.raises(RunFailed, match=other):
            charset_of(other, "x")

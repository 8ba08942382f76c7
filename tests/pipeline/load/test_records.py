"""Files become typed rows, or bad ones with a reason: none is lost, none comes twice."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mere.errors import RunFailed
from mere.names import TableName
from mere.pipeline.load.formats.lines import with_lines
from mere.pipeline.load.records import LINE, RAW, WHY, Rows, json_rows, rows_of
from mere.project.kinds import Kind
from mere.project.model import Model
from mere.sources.source import Declared, Files, Format, OnNewColumn, Portion, Source, Text, Trace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = "_source_file"
BAD = "size(_rules) > 0"


@pytest.fixture(scope="module")
def spark(warm_jvm: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from mere import Lake, session

    lake = Lake.create(str(tmp_path_factory.mktemp("lake")))
    with session(lake, "main") as opened:
        yield opened.spark
    lake.close()


class Loader:
    """Writes files and loads them."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.folder, self.spark = folder, spark

    def write(self, files: Mapping[str, bytes | str | pa.Table]) -> dict[str, Path]:
        paths = {}
        for name, content in files.items():
            paths[name] = path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, pa.Table):
                pq.write_table(content, path)
            else:
                path.write_bytes(content.encode() if isinstance(content, str) else content)
        return paths

    def __call__(
        self,
        files: Mapping[str, bytes | str | pa.Table],
        columns: Mapping[str, str | Declared] | None = None,
        *,
        text: Text | None = None,
        kind: Format | None = None,
        table: Sequence[tuple[str, str]] = (),
        values: Mapping[str, Mapping[str, str]] | None = None,
        earlier: Sequence[str] = (),
        skip_empty: bool = False,
        **options: Any,
    ) -> Rows:
        paths = self.write(files)
        format_ = kind or Format(next(iter(files)).removesuffix(".gz").rpartition(".")[2])
        feed = Files("*", format_, text or Text(), skip_empty=skip_empty)
        declared = {
            name: each if isinstance(each, Declared) else Declared(each) for name, each in (columns or {}).items()
        }
        source = Source(feed, "code", columns=declared, **options)
        model = Model(TableName("bronze", "sales"), Kind.SOURCE, "sources/sales.yaml", source)
        portions = [Portion(name, name, "1", values=(values or {}).get(name, {})) for name in files]
        return rows_of(model, portions, paths, table, self.spark, earlier)


@pytest.fixture
def load(tmp_path: Path, spark: SparkSession) -> Loader:
    return Loader(tmp_path, spark)


def good(rows: Rows, *columns: str) -> list[Any]:
    frame = rows.frame.where(f"NOT ({BAD})")
    found = frame.selectExpr(*columns) if columns else frame.drop("_rules", WHY, LINE, RAW, FILE)
    return sorted((tuple(row) for row in found.collect()), key=repr)


def bad(rows: Rows) -> list[tuple[list[str], str]]:
    return [(row[0], row[1]) for row in rows.frame.where(BAD).select("_rules", WHY).collect()]


# CSV

SALES = {"id": "int", "amount": "decimal(10,2)", "day": "date", "note": "string"}
HEADER = "id,amount,day,note"
HUGE, COMMAS = "x" * 300_000, "," * 30_000
GOOD_LINES: dict[str, tuple[Any, ...]] = {
    "1,1.50,2024-01-31,plain": (1, Decimal("1.50"), date(2024, 1, 31), "plain"),
    "2,,,": (2, None, None, None),
    '3,2,2024-02-29,"with, comma"': (3, Decimal(2), date(2024, 2, 29), "with, comma"),
    '4,2,2024-02-29,"say ""hi"""': (4, Decimal(2), date(2024, 2, 29), 'say "hi"'),
    '5,2,2024-02-29,""': (5, Decimal(2), date(2024, 2, 29), ""),
    "6, 2 ,2024-02-29,  spaced  ": (6, Decimal(2), date(2024, 2, 29), "  spaced  "),
    '7,2,2024-02-29,5" pipe': (7, Decimal(2), date(2024, 2, 29), '5" pipe'),
    '8,""," ",\\': (8, None, None, "\\"),
    "9,2,2024-02-29,Größe 😀 \u2028": (9, Decimal(2), date(2024, 2, 29), "Größe 😀 \u2028"),
    f'11,2,2024-02-29,"{COMMAS}"': (11, Decimal(2), date(2024, 2, 29), COMMAS),
    f"10,2,2024-02-29,{HUGE}": (10, Decimal(2), date(2024, 2, 29), HUGE),
}
BAD_LINES: dict[bytes, list[str]] = {
    b"20,1,2024-01-01": ["values"],
    b"21,1,2024-01-01,x,y": ["values"],
    b'22,1,2024-01-01,"open': ["malformed"],
    b'23,1,2024-01-01,"a"b': ["malformed"],
    '24,1,2024-01-01,"a"\u2028'.encode(): ["malformed"],
    b"letters,1,2024-01-01,x": ["type of id"],
    b"99999999999,1,2024-01-01,x": ["type of id"],
    b"1.5,1,2024-01-01,x": ["type of id"],
    b"27,123456789.00,2024-01-01,x": ["type of amount"],
    b"28,1,2024-02-30,x": ["type of day"],
    b"29,abc,2024-13-01,x": ["type of amount", "type of day"],
    b"30,1,2024-01-01,\xff\xfe": ["encoding"],
    b"31,1,2024-01-01,nul\x00": ["encoding"],
    b"," * 30_000: ["values"],
    b"\xff" + b"," * 30_000: ["values"],
    b'33,1,2024-01-01,"' + b"," * 15_000: ["malformed"],
}


@pytest.fixture(scope="module")
def poisoned(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Rows, dict[str, Path]]:
    """One content, as files are written on this and that machine."""
    lines = [line.encode() for line in GOOD_LINES]
    for at, line in enumerate([*BAD_LINES, b"", b"   ", b"", HEADER.encode(), b"20,1,2024-01-01"]):
        lines.insert(2 * at, line)  # the last is a bad line that stands there twice
    lines.insert(0, HEADER.encode())
    files = {
        "unix.csv": b"\n".join([*lines, b""]),
        "windows.csv": b"\xef\xbb\xbf" + b"\r\n".join(lines),
        "packed.csv.gz": gzip.compress(b"\n".join(lines)),
    }
    loader = Loader(tmp_path_factory.mktemp("poisoned"), spark)
    rows = loader(files, SALES)
    return Rows(rows.frame.persist(), rows.columns, rows.portion, rows.may_be_bad, rows.text), {
        name: loader.folder / name for name in files
    }


def test_every_good_line_is_a_row(poisoned: tuple[Rows, dict[str, Path]]) -> None:
    found = poisoned[0].frame.where(f"NOT ({BAD})").select(FILE, *SALES).collect()
    for file in ("unix.csv", "windows.csv", "packed.csv.gz"):
        assert sorted(tuple(row[1:]) for row in found if row[0] == file) == sorted(GOOD_LINES.values())
    assert len(found) == 3 * len(GOOD_LINES)


def test_every_bad_line_is_a_bad_row_with_its_rules(poisoned: tuple[Rows, dict[str, Path]]) -> None:
    found = poisoned[0].frame.where(BAD).select(FILE, RAW, "_rules").collect()
    expected = Counter({line.decode(errors="replace"): 1 for line in BAD_LINES})
    expected["20,1,2024-01-01"] += 1
    for file in ("unix.csv", "windows.csv", "packed.csv.gz"):
        assert Counter(row[1] for row in found if row[0] == file) == expected
    rules = {line.decode(errors="replace"): rules for line, rules in BAD_LINES.items()}
    assert {row[1]: row[2] for row in found} == rules


def test_a_bad_row_says_why_and_keeps_what_could_be_read(poisoned: tuple[Rows, dict[str, Path]]) -> None:
    found = poisoned[0].frame.where(BAD).where(f"{FILE} = 'unix.csv'").select(RAW, WHY, *SALES).collect()
    by_start = {row[0][:8]: tuple(row[1:]) for row in found}
    assert by_start["29,abc,2"] == (
        "amount: 'abc' is not decimal(10,2); day: '2024-13-01' is not date",
        29,
        None,
        None,
        "x",
    )
    assert by_start["21,1,202"][0] == "5 values, where there should be 4"
    assert by_start["20,1,202"] == ("3 values, where there should be 4", 20, Decimal(1), date(2024, 1, 1), None)
    assert by_start["22,1,202"] == ("a quote is not closed where the value ends: '22,1,2024-01-01,\"open'", *[None] * 4)
    assert by_start["30,1,202"][0] == "the line is not text in utf-8, or has a NUL in it"
    assert by_start[",,,,,,,,"][0] == "30001 values, where there should be 4"
    assert len(by_start["33,1,202"][0]) < 140
    assert by_start["33,1,202"][0].endswith("…'")


def test_bad_rows_have_the_lines_on_which_they_stand(
    poisoned: tuple[Rows, dict[str, Path]], spark: SparkSession
) -> None:
    rows, paths = poisoned
    found = with_lines(rows.frame.where(BAD), rows, paths, spark).select(FILE, RAW, LINE).collect()
    lines = [line.decode(errors="replace") for line in paths["unix.csv"].read_bytes().split(b"\n")]
    texts = {line.decode(errors="replace") for line in BAD_LINES}
    expected = sorted((line, at) for at, line in enumerate(lines, start=1) if line in texts)
    for file in paths:
        assert sorted((row[1], row[2]) for row in found if row[0] == file) == expected


def test_a_packed_file_that_is_cut_off_is_an_error_that_names_it(load: Loader) -> None:
    lines = "\n".join(f"{at},{at * 7919 % 1000003}" for at in range(200_000))
    whole = gzip.compress(f"id,x\n{lines}".encode())
    with pytest.raises(Exception, match=r"cut\.csv\.gz"):
        load({"cut.csv.gz": whole[: len(whole) // 2]}).frame.collect()


def test_files_with_other_headers_are_one_table(load: Loader) -> None:
    rows = load(
        {"a.csv": "id,Net Amount\n1,2\n", "b.csv": "NET AMOUNT,ID\n4,3\n", "c.csv": 'new,"id",net_amount\n7,5,6\n'},
        {"id": "int"},
    )
    assert rows.frame.columns == ["id", "net_amount", "new", FILE, "_rules", WHY, LINE, RAW]
    assert good(rows) == [(1, 2, None), (3, 4, None), (5, 6, 7)]
    assert rows.columns["c.csv"] == '{"new": "string", "id": "string", "net_amount": "string"}'


def test_a_file_without_a_header_has_the_declared_columns_in_their_order(load: Loader) -> None:
    rows = load({"a.csv": "\ufeff1,a\n2,b\n3\n"}, {"id": "int", "name": "string"}, text=Text(header=False))
    assert good(rows) == [(1, "a"), (2, "b")]
    assert [rules for rules, _ in bad(rows)] == [["values"]]
    rows = load({"b.csv": "1,a\n2,b\n"}, text=Text(header=False))
    assert good(rows, "column_1", "column_2") == [("1", "a"), ("2", "b")]


def test_values_are_cut_and_escaped_as_declared(load: Loader) -> None:
    text = Text(delimiter=";", quote="'", escape="\\", null="NA")
    rows = load({"a.csv": "id;name\n1;'a;b'\n2;NA\n3;\n4;'it\\'s'\n5;'\n6;\"\n"}, {"id": "int"}, text=text)
    assert good(rows) == [(1, "a;b"), (2, None), (3, None), (4, "it's"), (6, '"')]
    assert [rules for rules, _ in bad(rows)] == [["malformed"]]
    rows = load({"b.csv": "id||name\n1||a|b\n2||c||d\n"}, {"id": "int"}, text=Text(delimiter="||", quote=""))
    assert good(rows) == [(1, "a|b")]
    assert bad(rows) == [(["values"], "3 values, where there should be 2")]


@pytest.mark.parametrize("encoding", ["latin-1", "windows-1252", "koi8-r"])
def test_other_encodings(load: Loader, spark: SparkSession, encoding: str) -> None:
    word = {"latin-1": "Größe", "windows-1252": "€ „Größe“", "koi8-r": "Привет"}[encoding]
    content = f"id,{word}\n1,{word}\n2,x\n".encode(encoding)
    broken = b"3,\x81\n" if encoding == "windows-1252" else b"3,\x00\n"
    rows = load({"a.csv": content + broken}, {"id": "int"}, text=Text(encoding=encoding))
    assert [row[1] for row in good(rows)] == [word, "x"]
    assert [rules for rules, _ in bad(rows)] == [["encoding"]]
    marked = with_lines(rows.frame.where(BAD), rows, {"a.csv": load.folder / "a.csv"}, spark)
    assert [row[0] for row in marked.select(LINE).collect()] == [4]


def test_values_over_several_lines(load: Loader) -> None:
    text = Text(multiline=True)
    content = 'id,note\n1,"two\nlines, ""quoted"""\n2,\n3,""\nx,bad\n4\n'
    rows = load({"a.csv": content, "b.csv": b"id,note\r\n5,\xff\r\n6,y"}, {"id": "int"}, text=text)
    assert good(rows) == [(1, 'two\nlines, "quoted"'), (2, None), (3, ""), (6, "y")]
    raws = rows.frame.where(BAD).select(RAW).collect()
    assert sorted(row[0] for row in raws) == ["4", "5,\ufffd", "x,bad"]
    rows = load({"c.csv": 'größe\n"€\nü"\n'.encode("cp1252")}, text=Text(multiline=True, encoding="cp1252"))
    assert good(rows) == [("€\nü",)]


def test_what_is_wrong_with_values_over_several_lines(load: Loader) -> None:
    content = 'id,note\nx,bad\n4\n"1\n",fine'
    rows = load({"a.csv": content, "b.csv": b"id,note\r\n5,\xff\r\n"}, {"id": "int"}, text=Text(multiline=True))
    assert good(rows) == [(1, "fine")]
    assert sorted(bad(rows)) == [
        (["encoding"], "the line is not text in utf-8, or has a NUL in it"),
        (["type of id"], "id: 'x' is not int"),
        (["values"], "1 values, where there should be 2"),
    ]


def test_times_in_the_format_that_is_declared(load: Loader) -> None:
    rows = load(
        {"a.csv": "at,day,local\n31/01/2024 12:30,20240131,2024-01-31 08:00\n30/02/2024 12:30,20240131,\n,,\n"},
        {
            "at": Declared("timestamp", format="dd/MM/yyyy HH:mm"),
            "day": Declared("date", format="yyyyMMdd"),
            "local": "timestamp_ntz",
        },
    )
    assert good(rows, "CAST(at AS string)", "day", "local") == [
        ("2024-01-31 12:30:00", date(2024, 1, 31), datetime(2024, 1, 31, 8)),
        (None, None, None),
    ]
    assert bad(rows) == [(["type of at"], "at: '30/02/2024 12:30' is not timestamp (dd/MM/yyyy HH:mm)")]


def test_nested_values_are_read_from_their_json(load: Loader) -> None:
    rows = load(
        {"a.csv": 'id,tags,who\n1,"[1,2]","{""a"":""x"",""b"":1.10}"\n2,,\n3,"[1,""x""]",\n4,"[1",\n'},
        {"id": "int", "tags": "array<int>", "who": "struct<a: string, b: decimal(4,2)>"},
    )
    assert good(rows, "id", "tags", "who.a", "who.b") == [
        (1, [1, 2], "x", Decimal("1.10")),
        (2, None, None, None),
    ]
    assert [rules for rules, _ in bad(rows)] == [["type of tags"]] * 2


# names, paths, what the path says


def test_any_name_of_a_file_leads_back_to_its_portion(load: Loader) -> None:
    names = [
        "a b.csv",
        "50%25.csv",
        "größe ü.csv",
        "[1]{2}*?.csv",
        "a,b;c'd\"e.csv",
        "x#y+z&=.csv",
        "d:e/f.csv",
        "\\.csv",
    ]
    rows = load({name: f"id\n{at}\n" for at, name in enumerate(names)})
    assert dict(good(rows, FILE, "id")) == {name: str(at) for at, name in enumerate(names)}


@pytest.mark.parametrize("name", ["_hidden.csv", ".hidden.csv", "12:30.csv"])
def test_a_file_that_spark_does_not_read_is_an_error(load: Loader, name: str) -> None:
    with pytest.raises(RunFailed, match="Spark reads no file") as failed:
        load({"a.csv": "id\n1\n", name: "id\n2\n"})
    assert name in str(failed.value)


def test_the_fields_of_the_path_are_columns(load: Loader) -> None:
    files = {"2024/01/wien.csv": "id\n1\n", "2024/02/rom.csv": "id\n2\n"}
    values = {name: {"year": "2024", "month": name[5:7], "date": "2024-01-02", "city": name[8:-4]} for name in files}
    rows = load(files, {"month": "string"}, values=values)
    assert good(rows) == [("1", 2024, "01", date(2024, 1, 2), "wien"), ("2", 2024, "02", date(2024, 1, 2), "rom")]
    rows = load({"2024/03/oslo.csv": "id\n3\n"}, values={"2024/03/oslo.csv": {"month": "03", "city": "oslo"}})
    assert good(rows, "id", "month", "city", FILE) == [("3", 3, "oslo", "2024/03/oslo.csv")]
    rows = load(files, values=values, path_columns=False, trace=Trace(file="source"))
    assert good(rows, "source", "id") == [("2024/01/wien.csv", "1"), ("2024/02/rom.csv", "2")]
    with pytest.raises(RunFailed, match="year is a field of the path"):
        load({"a.csv": "year\n1\n"}, values={"a.csv": {"year": "2024"}})
    rows = load({"a.csv": "id\n1\n"}, trace=Trace(file=None))
    assert (rows.portion, good(rows)) == ("'a.csv'", [("1",)])


# empty files


def test_an_empty_file_is_an_error_unless_it_may_be(load: Loader) -> None:
    for name, content in {"a.csv": b"", "b.csv": b"\n \n", "c.csv.gz": gzip.compress(b""), "d.jsonl": b""}.items():
        with pytest.raises(RunFailed, match=f"{name} is empty"):
            load({name: content})
    rows = load({"a.csv": "", "b.csv": "id\n1\n"}, skip_empty=True)
    assert good(rows) == [("1",)]
    rows = load({"a.csv": ""}, {"id": "int"}, skip_empty=True, table=[("x", "date")])
    assert (good(rows), rows.frame.columns[:2]) == ([], ["x", "id"])


def test_a_file_with_a_header_alone_has_no_rows(load: Loader) -> None:
    assert load({"a.csv": "id,name"}).frame.collect() == []


# JSON

BIG = "123456789012345678.12345678901234567891"


def test_lines_of_json(load: Loader, spark: SparkSession) -> None:
    good_lines = {
        '{"id": 1, "amount": 1.10, "Tags": [1, {"a": 2.50}]}': (1, Decimal("1.10"), '[1,{"a":2.5}]', None),
        f'  {{"id": "2", "amount": {BIG}, "extra": {BIG}}} ': (2, Decimal(BIG), None, BIG),
        '{"amount": null, "id": 3, "extra": true}': (3, None, None, "true"),
        '{"id": 4, "extra": "null \\u0000 \\"x\\""}': (4, None, None, 'null \x00 "x"'),
        '{"id": 5, "extra": ""}': (5, None, None, ""),
    }
    bad_lines: dict[str, list[str]] = {
        '{"id": 20': ["malformed"],
        '[{"id": 21}]': ["malformed"],
        '{"id": 22}{"id": 23}': ["malformed"],
        '{"id": 24}, {"id": 25}': ["malformed"],
        '{"id": 26}] {"id": 27}': ["malformed"],
        "28": ["malformed"],
        "null": ["malformed"],
        "not json": ["malformed"],
        "{'id': 1}": ["malformed"],
        '{"id": 1, "id": 2}': ["malformed"],
        '{"id": "x"}': ["type of id"],
        '{"id": 1.5, "amount": "much"}': ["type of amount", "type of id"],
        '{"id": 99999999999}': ["type of id"],
        '{"id": {"a": 1}}': ["type of id"],
    }
    lines = [line.encode() for line in [*good_lines, *bad_lines]] + [b"", b'{"id": 30, "extra": "\xff"}']
    rows = load(
        {"a.jsonl": b"\xef\xbb\xbf" + b"\r\n".join(lines), "b.jsonl.gz": gzip.compress(b"\n".join(lines))},
        {"id": "int", "amount": "decimal(38,20)"},
    )
    both = rows.frame.persist()
    found = both.where(f"NOT ({BAD})").select(FILE, "id", "amount", "tags", "extra").collect()
    broken = both.where(BAD).select(FILE, RAW, "_rules").collect()
    bad_lines['{"id": 30, "extra": "\ufffd"}'] = ["encoding"]
    for file in ("a.jsonl", "b.jsonl.gz"):
        assert sorted(tuple(row[1:]) for row in found if row[0] == file) == list(good_lines.values())
        assert sorted((row[1], sorted(row[2])) for row in broken if row[0] == file) == sorted(bad_lines.items())
    marked = with_lines(both.where(BAD), rows, {name: load.folder / name for name in rows.columns}, spark)
    at = {row[0]: row[1] for row in marked.where(f"{FILE} = 'a.jsonl'").select(RAW, LINE).collect()}
    assert at['{"id": 20'] == len(good_lines) + 1
    assert at['{"id": 30, "extra": "\ufffd"}'] == len(lines)
    both.unpersist()


def test_keys_of_json_that_nobody_declared(load: Loader) -> None:
    files = {"a.jsonl": '{"Id": 1, "b?": 2}\n{"Id": 2, "c.d?": 3, "e.f": 4}\n', "b.jsonl": '{"ID": 3}\n'}
    rows = load(files, {"id": "int"})
    assert good(rows, "id", "b", "c_d", "e_f") == [(1, 2, None, None), (2, None, 3, 4), (3, None, None, None)]
    assert rows.columns["a.jsonl"] == '{"Id": "string", "b?": "string", "c.d?": "string", "e.f": "string"}'
    with pytest.raises(RunFailed, match=r"b\? is new; c\.d\? is new"):
        load(files, {"id": "int"}, on_new_column=OnNewColumn.FAIL)
    declared: dict[str, str | Declared] = {"n": Declared("int", source="Id"), "b": Declared("int", source="b?")}
    rows = load({"a.jsonl": files["a.jsonl"]}, declared, on_new_column=OnNewColumn.IGNORE)
    assert good(rows) == [(1, 2), (2, None)]
    with pytest.raises(RunFailed, match="n is missing"):
        load({"a.jsonl": '{"x": 1}\n'}, {"n": "int"})


def test_documents_of_json(load: Loader) -> None:
    rows = load(
        {
            "list.json": f'\ufeff[\n  {{"id": 1, "x": {BIG}}},\n {{"id": 2, "x": {{"y": [1.50]}}}}, 5, null, "x"\n]\n',
            "one.json": '{\n "id": 3,\n "x": "a\\nb"\n}',
            "none.json": "[]",
        },
        {"id": "int"},
    )
    assert good(rows) == [(1, BIG), (2, '{"y":[1.5]}'), (3, "a\nb")]
    assert [rules for rules, _ in bad(rows)] == [["malformed"]] * 3
    assert rows.text is None


@pytest.mark.parametrize(
    "content", ['[{"id": 1}, {"id"', '[{"id": 1}', '{"id": 1}\n{"id": 2}\n', '{"id": {"a": 1}', '[{"id": 1}] x', "text"]
)
def test_a_broken_document_is_an_error(load: Loader, content: str) -> None:
    with pytest.raises(RunFailed, match=r"b\.json is not a JSON document") as failed:
        load({"a.json": '[{"id": 1}]', "b.json": content}, {"id": "int"})
    assert "jsonl" in str(failed.value)


def test_a_document_where_lines_should_be_is_an_error(load: Loader) -> None:
    with pytest.raises(RunFailed, match="format: json"):
        load({"a.jsonl": '[\n{"id": 1}\n]'})
    with pytest.raises(RunFailed, match="<!doctype"):
        load({"a.jsonl": "<!doctype html>"})


def test_records_of_an_api(load: Loader, spark: SparkSession) -> None:
    source = Source(Files("", Format.JSONL), "code", columns={"id": Declared("bigint"), "gone": Declared("int")})
    model = Model(TableName("bronze", "api"), Kind.SOURCE, "sources/api.yaml", source)
    texts = pa.table({"raw": [f'{{"id": 1, "Value": {BIG}}}', '{"id": "x"}', '{"id": 2, "other": null}']})
    rows = json_rows(model, texts, [("id", "bigint"), ("before", "string")], spark, "page")
    assert rows.frame.columns == ["id", "before", "value", "gone", FILE, "_rules", WHY, LINE, RAW]
    assert good(rows) == [(1, None, BIG, None), (2, None, None, None)]
    assert bad(rows) == [(["type of id"], "id: 'x' is not bigint")]


# Parquet


def test_parquet_goes_through_as_it_is(load: Loader) -> None:
    at = datetime(2024, 1, 31, 12, 30, 15, 123456)
    table = pa.table(
        {
            "ID": pa.array([1, None], pa.int64()),
            "tiny": pa.array([1, None], pa.int8()),
            "u8": pa.array([255, None], pa.uint8()),
            "u16": pa.array([65535, None], pa.uint16()),
            "u32": pa.array([2**32 - 1, None], pa.uint32()),
            "u64": pa.array([2**64 - 1, None], pa.uint64()),
            "f": pa.array([1.5, None], pa.float32()),
            "text": pa.array(["ü", None], pa.dictionary(pa.int32(), pa.string())),
            "large": pa.array(["l", None], pa.large_string()),
            "bytes": pa.array([b"\xff", None], pa.binary(1)),
            "money": pa.array([Decimal("1.10"), None], pa.decimal128(12, 2)),
            "day": pa.array([date(2024, 1, 31), None]),
            "at us": pa.array([at, None], pa.timestamp("us", tz="Europe/Vienna")),
            "at_ms": pa.array([at.replace(microsecond=123000), None], pa.timestamp("ms", tz="UTC")),
            "at_ns": pa.array([1706704215123456789, None], pa.timestamp("ns", tz="UTC")),
            "before": pa.array([-1, None], pa.timestamp("ns", tz="UTC")),
            "local": pa.array([at, None], pa.timestamp("us")),
            "local_ns": pa.array([1706704215123456789, None], pa.timestamp("ns")),
            "nothing": pa.nulls(2),
            "tags": pa.array([["a"], None], pa.list_(pa.string())),
            "who": pa.array([{"a b": 1}, None], pa.struct([("a b", pa.int16())])),
            "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
        }
    )
    rows = load({"a.parquet": table})
    assert not rows.may_be_bad
    kinds = {field.name: field.dataType.simpleString() for field in rows.frame.schema}
    assert kinds["at_us"] == kinds["at_ms"] == kinds["at_ns"] == "timestamp"
    assert kinds["local"] == kinds["local_ns"] == "timestamp_ntz"
    assert (kinds["tiny"], kinds["u8"], kinds["u32"], kinds["u64"]) == ("int", "int", "bigint", "decimal(20,0)")
    assert "nothing" not in kinds
    times = [f"date_format({each}, 'yyyy-MM-dd HH:mm:ss.SSSSSS')" for each in ("at_us", "at_ms", "at_ns", "before")]
    found = good(rows, *times, "local", "local_ns", "u64", "u8", "text", "bytes", "tags", "who['a b']", "map['k']")
    assert found[0] == (
        "2024-01-31 12:30:15.123456",
        "2024-01-31 12:30:15.123000",
        "2024-01-31 12:30:15.123456",
        "1969-12-31 23:59:59.999999",
        at,
        at,
        Decimal(2**64 - 1),
        255,
        "ü",
        b"\xff",
        ["a"],
        1,
        1,
    )
    assert all(value is None for value in found[1])


def test_times_of_96_bits_are_instants(load: Loader) -> None:
    path = load.folder / "old.parquet"
    at = datetime(2024, 1, 31, 12, 30, tzinfo=UTC)
    pq.write_table(pa.table({"at": pa.array([at], pa.timestamp("us"))}), path, use_deprecated_int96_timestamps=True)
    rows = load({"old.parquet": path.read_bytes()})
    assert rows.frame.schema["at"].dataType.simpleString() == "timestamp"
    assert good(rows, "CAST(at AS string)") == [("2024-01-31 12:30:00",)]


def test_parquet_files_may_have_their_columns_in_another_order_and_case(load: Loader) -> None:
    one = pa.table({"id": [1], "Airport_fee": [1.5]})
    two = pa.table({"airport_fee": [2.5], "ID": [2]})
    three = pa.table({"id": [3], "airport_fee": pa.nulls(1), "new": ["x"]})
    rows = load({"a.parquet": one, "b.parquet": two, "c.parquet": three})
    assert not rows.may_be_bad
    assert rows.frame.columns[:3] == ["id", "airport_fee", "new"]
    assert good(rows) == [(1, 1.5, None), (2, 2.5, None), (3, None, "x")]


def test_parquet_values_that_do_not_fit_are_bad_rows(load: Loader) -> None:
    table = pa.table(
        {
            "whole": pa.array([1.0, 1.5, None, 2.0, 3.0], pa.float64()),
            "small": pa.array([1, 2, None, 2**40, 5], pa.int64()),
            "money": pa.array([1.005, 2.0, None, 3.0, 1e30], pa.float64()),
        }
    )
    rows = load({"a.parquet": table}, {"whole": "bigint", "small": "int", "money": "decimal(10,2)"})
    assert rows.may_be_bad
    assert good(rows) == [(1, 1, Decimal("1.01")), (None, None, None)] or good(rows)[0][2] in (
        Decimal("1.00"),
        Decimal("1.01"),
    )
    assert sorted(bad(rows)) == [
        (["type of money"], "money: '1.0E30' is not decimal(10,2)"),
        (["type of small"], "small: '1099511627776' is not int"),
        (["type of whole"], "whole: '1.5' is not bigint"),
    ]
    raw = rows.frame.where("_rules = array('type of whole')").select(RAW, "whole", "small").collect()
    assert [tuple(row) for row in raw] == [('{"whole":1.5,"small":2,"money":2.0}', None, 2)]


def test_the_table_is_widened_by_a_file_or_a_file_by_the_table(load: Loader) -> None:
    files = {"a.parquet": pa.table({"x": pa.array([1], pa.int32()), "y": pa.array([1], pa.int64())})}
    rows = load(files, table=[("x", "bigint"), ("y", "int"), ("gone", "date")])
    kinds = {field.name: field.dataType.simpleString() for field in rows.frame.schema}
    assert (kinds["x"], kinds["y"], kinds["gone"]) == ("bigint", "bigint", "date")
    assert good(rows) == [(1, 1, None)]


def test_a_retyped_or_missing_column_is_an_error(load: Loader) -> None:
    files = {"a.parquet": pa.table({"x": ["one"]})}
    with pytest.raises(RunFailed, match="x is string, not int"):
        load(files, {"x": "integer"})
    with pytest.raises(RunFailed, match="y is missing"):
        load(files, table=[("x", "string"), ("y", "int")], earlier=['{"x": "string", "Y": "int"}'])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"id,name\n1,a\n", "is not Parquet: it begins with b'id,n'"),
        (b"PAR1" + b"x" * 100, "is cut off"),
        (b"PAR1" + b"x" * 100 + b"PAR1", "is damaged"),
    ],
)
def test_a_file_that_is_no_parquet_is_an_error(load: Loader, content: bytes, message: str) -> None:
    with pytest.raises(RunFailed, match=f"a.parquet {message}"):
        load({"a.parquet": content})

"""What `mere sql` says when a query is wrong, or a file is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from mere.errors import MereError, MetadataMissing, QueryError, RefNotFound
from mere.lake.lake import Lake
from mere.lake.query import query
from tests.lake import orders
from tests.lake.orders import ORDERS, failure, rows, write


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with orders.create(tmp_path) as lake:
        yield lake


# Errors


def test_an_unknown_table_gets_near_matches_and_a_hint(lake: Lake) -> None:
    message = failure(lake, "select *\nfrom gold.oders")
    assert message == (
        "There is no table gold.oders on main. Did you mean gold.orders?\n"
        "line 2: from gold.oders\n"
        "             ^\n"
        "See: mere tables --at main"
    )
    lake.branch("dev")
    assert "There is no table gold.oders on dev. Did you mean gold.orders?" in failure(lake, "from dev.gold.oders")
    assert "no table old.orders on dev. Did you mean gold.orders?" in failure(lake, "from old.orders", at="dev")
    assert "Did you mean gold.orders?" in failure(lake, "select * from orders")
    assert "is named in a string" in failure(lake, "from query_table('gold.orders')")


def test_an_unknown_ref_is_named(lake: Lake) -> None:
    lake.branch("dev")
    with pytest.raises(RefNotFound, match="Did you mean dev"):
        query(lake, "select * from dve.gold.orders")
    with pytest.raises(RefNotFound, match="does not go 99 commits back"):
        query(lake, 'select * from "main~99".gold.orders')
    with pytest.raises(RefNotFound):
        query(lake, "select 1", at="nowhere")


def test_an_unknown_column_is_one_sentence_with_its_place(lake: Lake) -> None:
    assert failure(lake, "select custmer from gold.orders") == (
        'Referenced column "custmer" not found in FROM clause. Candidate bindings: "customer", "amount".\n'
        "line 1: select custmer from gold.orders\n"
        "               ^"
    )


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("select at from gold.events", "at"),
        ("select id from gold.events order by at", "at"),
        ("select max(AT) from gold.events", "at"),
        ("select end from gold.events", "end"),
    ],
)
def test_a_column_that_is_a_word_of_sql_is_to_be_quoted(lake: Lake, sql: str, word: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us")), ("end", pa.int64())])
    lake.pyiceberg().create_table("gold.events", schema)
    assert failure(lake, sql).endswith(
        f'gold.events has a column {word}, which is a word of SQL, too. Quote it: "{word}"'
    )
    assert rows(lake, sql.replace(word, f'"{word}"').replace("AT", '"AT"'))[1:] == []
    assert "Quote it" not in failure(lake, "selec id from gold.events")
    assert "Quote it" not in failure(lake, "select at from gold.orders")


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("to", ["'{}/out.csv'", "'{}/out.parquet'", "'{}/out' (FORMAT csv, PARTITION_BY (id))"])
def test_a_copy_that_fails_leaves_nothing_behind(lake: Lake, tmp_path: Path, to: str, there: bool) -> None:
    folder = tmp_path / "to"
    folder.mkdir()
    if there:
        (folder / "out.csv").write_text("mine")
        (folder / "out.parquet").write_text("mine")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    select = "select amount, case when id > 1 then error('bad row') else id end as id from gold.orders"
    with pytest.raises(QueryError, match="bad row"):
        query(lake, f"copy ({select}) to {to.format(folder)}")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_the_place_of_an_error_is_that_in_the_query_as_it_was_written(lake: Lake) -> None:
    sql = "select 'ä', main.gold.orders.id\nfrom main.gold.orders join \"main~0\".gold.customers on nope = 1"
    assert failure(lake, sql).splitlines()[1:] == [
        'line 2: from main.gold.orders join "main~0".gold.customers on nope = 1',
        "                                                              ^",
    ]


def test_a_syntax_error_shows_where(lake: Lake) -> None:
    assert failure(lake, "select 1,\n  from where") == (
        'Syntax error at or near "where".\nline 2:   from where\n               ^'
    )
    long = f"select {', '.join(map(str, range(100)))} frm gold.orders"
    shown = failure(lake, long).splitlines()
    assert len(shown[1]) < 120
    assert shown[1][shown[2].index("^") :].startswith("gold.orders")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select 'x'::int", "Could not convert string 'x' to INT32."),
        (
            "select sum(customer) from gold.orders",
            "No function matches the given name and argument types 'sum(VARCHAR)'.",
        ),
        ("select nofunction(1)", "Scalar Function with name nofunction does not exist."),
        ("select o.x from gold.orders o", 'Table "o" does not have a column named "x".'),
        ("select * from read_csv('nope.csv')", 'No files found that match the pattern "nope.csv".'),
        ("select $a", "Values were not provided for the following prepared statement parameters: a."),
    ],
)
def test_other_errors_are_sentences_without_noise(lake: Lake, sql: str, message: str) -> None:
    found = failure(lake, sql)
    assert found.startswith(message)
    assert not {"Error:", "@main", "{", "INSTALL", "\t"} & set(found.replace("(", " ").split())


@pytest.mark.parametrize("sql", ["select 1\0; select 2", "select '\udcff'"])
def test_what_is_not_text_is_refused(lake: Lake, sql: str) -> None:
    assert "not text" in failure(lake, sql)


def test_nothing_is_fetched_from_the_network(lake: Lake) -> None:
    assert "httpfs" in failure(lake, "from read_parquet('s3://bucket/file')")
    settings = "current_setting('autoinstall_known_extensions'), current_setting('autoload_known_extensions')"
    assert rows(lake, f"select {settings}") == [(False, False)]


# Damage


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def scramble(path: Path) -> None:
    path.write_bytes(bytes(byte ^ 0x5A for byte in path.read_bytes()))


def empty(path: Path) -> None:
    path.write_bytes(b"")


HARMS: dict[str, Callable[[Path], None]] = {
    "gone": Path.unlink,
    "cut": cut,
    "empty": empty,
    "scrambled": scramble,
}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize(
    "which", ["metadata/*.metadata.json", "metadata/snap-*.avro", "metadata/*-m0.avro", "data/*.parquet"]
)
def test_a_damaged_file_is_named_with_its_table(lake: Lake, which: str, harm: str) -> None:
    """DuckDB ends the process when a manifest cannot be read: mere looks first."""
    write(lake, "gold.orders", ORDERS)
    folder = Path(lake.at().pointer("gold.orders")).parent.parent
    harmed = sorted(folder.glob(which))
    assert harmed
    for path in harmed:
        HARMS[harm](path)
    with Lake.open(lake.root) as again, pytest.raises(MereError) as caught:
        rows(again, "select o.* from main.gold.orders o join gold.customers on o.customer = name")
    assert "gold.orders cannot be read: " in caught.value.message
    assert any(str(path) in caught.value.message for path in harmed)
    assert isinstance(caught.value, MetadataMissing if harm == "gone" else QueryError)
    assert caught.value.remedy


@pytest.mark.parametrize("content", ["[]", "{}", "null", '"text"', '{"format-version": 2, "location": "x"}'])
def test_metadata_that_is_something_else_is_damage(lake: Lake, content: str) -> None:
    pointer = Path(lake.at().pointer("gold.orders"))
    pointer.write_text(content)
    with Lake.open(lake.root) as again:
        assert f"{pointer} is not Iceberg metadata" in failure(again, "select * from gold.orders")


def test_a_manifest_that_lost_its_last_block_is_damage(lake: Lake) -> None:
    """It can still be read; only rows would be missing."""
    (manifest,) = Path(lake.at().pointer("gold.orders")).parent.glob("*-m0.avro")
    content = manifest.read_bytes()
    sync = content[-16:]
    manifest.write_bytes(content[: content.index(sync) + 16])
    assert "bytes instead of" in failure(lake, "select * from gold.orders")


def test_a_manifest_list_that_lost_its_last_block_is_damage(lake: Lake) -> None:
    """Nothing says how long it has to be."""
    (manifest_list,) = Path(lake.at().pointer("gold.orders")).parent.glob("snap-*.avro")
    content = manifest_list.read_bytes()
    manifest_list.write_bytes(content[: content.index(content[-16:]) + 16])
    assert f"{manifest_list} is cut short" in failure(lake, "select * from gold.orders")

"""Audits on Spark and on DuckDB: the same tables, the same questions, the same findings."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from mere.audits.audit import Audit, load_customs, parse
from mere.audits.builtin import Scope
from mere.audits.engines import on_duckdb, on_spark
from mere.audits.evaluate import SAMPLE, Finding, Rows, State, evaluate
from mere.audits.rules import Key
from mere.engine.session import session
from mere.entries import parse as yaml
from mere.lake.lake import Lake
from mere.names import TableName
from tests.lake.orders import write

NOW = dt.datetime(2024, 1, 10, 12, tzinfo=dt.UTC)
ODD = TableName("gold", "odd")
EMPTY = TableName("gold", "empty")


def day(number: int) -> dt.date:
    return dt.date(2024, 1, number)


def at(number: int, hour: int = 0) -> dt.datetime:
    return dt.datetime(2024, 1, number, hour, tzinfo=dt.UTC)


NAN = float("nan")
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 2, None, None, 6], pa.int64()),
        "sum": pa.array([Decimal("1.50"), Decimal("-2.25"), None, Decimal("0.00"), Decimal("7.10"), Decimal("1.5")]),
        "price": pa.array([1.0, NAN, NAN, None, -0.5, 0.1], pa.float64()),
        "status": pa.array(["open", "it's", 'dou"ble', "back\\slash", None, "Öl %s {{x}}"]),
        "order date": pa.array([day(1), day(2), day(2), day(3), day(8), None], pa.date32()),
        "a.b": pa.array([1, 2, 3, 4, 5, None], pa.int32()),
        "select": pa.array([True, True, False, None, True, True]),
        "tick`s": pa.array(["x", "y", "z", "x", None, "x"]),
        "at": pa.array([at(1), at(2), at(3), at(4), at(10, 11), None], pa.timestamp("us", tz="UTC")),
        "number": pa.array(["1", "2", "x", "4", "5", "6"]),
    }
)
OTHERS = pa.table({"key": pa.array([1, 1, 2, None], pa.int64()), "mark": pa.array(["x", "x", "y", None])})


class Case(NamedTuple):
    audit: str
    state: State
    bad: int
    checked: int | None = 6
    says: str = ""


def ok(audit: str, bad: int = 0, checked: int | None = 6, says: str = "") -> Case:
    return Case(audit, State.OK, bad, checked, says)


def fails(audit: str, bad: int, checked: int | None = 6, says: str = "") -> Case:
    return Case(audit, State.FAILED, bad, checked, says)


CASES = [
    # not_null, and names that want quoting
    ok("not_null: number"),
    fails("not_null: [id]", 2),
    fails("not_null: [id, sum]", 3),
    fails("not_null: ['order date', a.b, select, tick`s]", 3),
    ok("not_null: price\nwhere: price is not null", checked=5),
    # unique: NULL is like nothing, NaN is like NaN
    fails("unique: id", 2, 4),
    fails("unique: [price]", 2, 5),
    fails("unique: [tick`s]", 3, 5),
    ok("unique: [id, tick`s]", checked=4),
    fails("unique: ['order date', id]", 2, 3),
    fails("unique: sum", 2, 5),
    ok("unique: id\nwhere: id <> 2", checked=1 + 1),
    # accepted_values: NULL is accepted
    ok("""accepted_values: {column: status, values: [open, "it's", 'dou"ble', 'back\\slash', "Öl %s {{x}}"]}"""),
    fails("accepted_values: {column: status, values: [open, closed]}", 4),
    ok("accepted_values: {column: a.b, values: [1, 2, 3, 4, 5]}"),
    fails("accepted_values: {column: id, values: [1, 6]}", 2),
    ok("accepted_values: {column: sum, values: [1.5, -2.25, 0, 7.1]}"),
    fails("accepted_values: {column: price, values: [1, -0.5, 0.1]}", 2),
    ok("accepted_values: {column: price, values: [1, -0.5, 0.1, .nan]}"),
    fails("accepted_values: {column: select, values: [true]}", 1),
    fails("accepted_values: {column: order date, values: [2024-01-01, 2024-01-02, 2024-01-03]}", 1),
    fails("accepted_values: {column: at, values: [2024-01-01T00:00:00Z, 2024-01-02T01:00:00+01:00]}", 3),
    # relationships: NULL points nowhere, and a key that is there twice finds a row once
    fails("relationships: {column: id, to: gold.others, key: key}", 1),
    ok("relationships: {column: id, to: gold.others, key: key}\nwhere: id < 6", checked=3),
    fails("relationships: {column: [id, tick`s], to: gold.others, key: [key, mark]}", 2),
    fails("relationships: {column: [id], to: gold.empty}", 4),
    # assert: as CHECK in SQL, what is not known is not wrong; NaN is the greatest number
    fails("assert: sum >= 0", 1),
    ok("assert: price >= -0.5"),
    fails("assert: price < 100", 2),
    fails("assert: sum = price or price is null", 4),
    fails("assert: status not like '%s%'", 3),
    fails("assert: status = 'it\\'s'", 4),
    fails("assert: '`order date` < ''2024-01-03'' and `a.b` < 3'", 3),
    # what `where` leaves out is not computed: 'x' is no number
    fails("assert: cast(number as int) > 1\nwhere: number <> 'x'", 1, 5),
    ok("assert: 'false'\nwhere: id > 100", checked=0),
    # NaN is not lost to `where`, though no file's bounds show it
    fails("assert: price < 1\nwhere: price > 100", 2, 2),
    fails("unique: price\nwhere: price > 100", 2, 2),
    # thresholds
    fails("not_null: id\nallow: 1", 2, says="2 of 6 rows are bad, 1 row allowed"),
    ok("not_null: id\nallow: 2", 2),
    fails("not_null: id\nallow: 33.3%", 2, says="33.3% allowed"),
    ok("not_null: id\nallow: 33.4%", 2),
    ok("not_null: id\nwhere: sum > 1 and id is not null\nallow: 0%", checked=2),
    ok("unique: id\nallow: 50%", 2, 4),
    fails("relationships: {column: id, to: gold.others, key: key}\nallow: 16%", 1),
    Case("not_null: id\nseverity: warn", State.WARNED, 2),
    # the table as a whole
    ok("row_count: {min: 6, max: 6}"),
    fails("row_count: {min: 7}", 1, says="6 rows, not at least 7"),
    fails("row_count: {max: 1}\nwhere: sum > 0", 1, 3, says="3 rows, not at most 1"),
    ok("freshness: {column: at, within: 1 hour}", checked=None),
    fails("freshness: {column: at, within: 59 minutes}", 1, None, says="the latest is 2024-01-10T11:00:00"),
    ok("freshness: {column: order date, within: 2 days}", checked=None),
    fails(
        "freshness: {column: order date, within: 1 day}",
        1,
        None,
        says="the latest is 2024-01-08, older than 2024-01-09",
    ),
    fails("freshness: {column: at, within: 8d}\nwhere: id = 1", 1, None),
    fails("freshness: {column: at, within: 8d}\nwhere: id = 7", 1, None, says="there is no at at all"),
    ok("max_change: 20%", says="5 → 6 rows (+20.0%)"),
    fails("max_change: 19.9%", 1, says="5 → 6 rows (+20.0%), 19.9% allowed"),
    ok("max_change: 1"),
    # custom ones
    fails("doubled: {column: '`tick``s`', times: 3}", 1, None),
    ok("doubled: id\nallow: 1", 1, None),
    fails("doubled: id\nallow: 16%", 1, 6),
    ok("doubled: id\nwhere: id > 2", checked=None),
    fails("no_gaps: '`order date`'", 1, None),
    ok("no_gaps: {column: '`order date`', longest: 5}", checked=None),
    Case("unknown_key: {column: id}", State.WARNED, 1, None),
]
# Audits that cannot be asked.
BROKEN = [
    Case("not_null: idd", State.ERROR, 0, None, says="audits.yaml:1: "),
    Case("relationships: {column: id, to: gold.nothing}", State.ERROR, 0, None, says="audits.yaml:1: "),
    Case("freshness: {column: status, within: 1d}", State.ERROR, 0, None, says="needs a date or a time"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "audits").mkdir()
    (folder / "audits" / "doubled.sql").write_text(
        "-- description: values that are there so many times\n-- defaults: {times: 2}\n"
        "WITH groups AS (SELECT {{ column }} AS value, count(*) AS rows FROM {{ this }} t GROUP BY {{ column }})\n"
        "SELECT * FROM groups WHERE rows >= {{ times }} AND value IS NOT NULL\n"
    )
    # The one that the documentation shows.
    page = Path(__file__).parents[2] / "docs" / "audits.md"
    (folder / "audits" / "no_gaps.sql").write_text(page.read_text("utf-8").split("```sql\n")[2].partition("```")[0])
    (folder / "audits" / "unknown_key.sql").write_text(
        "-- severity: warn\n"
        "SELECT {{ this }}.{{ column }} FROM {{ this }}\n"
        "LEFT ANTI JOIN gold.others AS o ON o.key = {{ this }}.{{ column }}\n"
        "WHERE {{ this }}.{{ column }} IS NOT NULL"
    )
    return folder


@pytest.fixture(scope="module")
def lake(folder: Path) -> Iterator[Lake]:
    with Lake.create(folder / "lake") as lake:
        write(lake, "gold.odd", ROWS)
        write(lake, "gold.others", OTHERS)
        write(lake, "gold.empty", ROWS.slice(0, 0))
        yield lake


class Counted:
    """Runs queries, and remembers them."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.queries: list[str] = []

    def __call__(self, sql: str) -> list[dict[str, Any]]:
        self.queries.append(sql)
        return self.rows(sql)


@pytest.fixture(scope="module", params=["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def rows(request: pytest.FixtureRequest, lake: Lake) -> Iterator[Rows]:
    if request.param == "duckdb":
        yield on_duckdb(lake, "main")
        return
    request.getfixturevalue("warm_jvm")
    with session(lake, "main") as opened:
        yield on_spark(opened)


@pytest.fixture
def counted(rows: Rows) -> Counted:
    return Counted(rows)


def audit(folder: Path, text: str) -> Audit:
    return parse(yaml(text, Path("audits.yaml")), load_customs(folder))


@pytest.fixture(scope="module")
def findings(folder: Path, rows: Rows) -> dict[str, Finding]:
    found = evaluate(ODD, [audit(folder, case.audit) for case in CASES], rows, now=NOW, before=5)
    return {case.audit: finding for case, finding in zip(CASES, found, strict=True)}


@pytest.mark.parametrize("case", CASES, ids=[case.audit for case in CASES])
def test_an_audit_finds_the_same_on_both_engines(case: Case, findings: dict[str, Finding], rows: Rows) -> None:
    finding = findings[case.audit]
    assert (finding.state, finding.bad, finding.checked) == (case.state, case.bad, case.checked), finding.message
    assert case.says in finding.message
    of_rows = not case.audit.startswith(("row_count", "freshness", "max_change"))
    if finding.state in (State.FAILED, State.WARNED) and of_rows:
        shown = rows(finding.query)
        assert len(shown) == finding.bad
        assert len(finding.sample) == min(SAMPLE, finding.bad)
        assert set(finding.sample[0]) == set(shown[0])
    else:
        assert finding.sample == ()


@pytest.mark.parametrize("case", BROKEN, ids=[case.audit for case in BROKEN])
def test_an_audit_that_cannot_be_asked_blocks_and_leaves_the_others_alone(case: Case, folder: Path, rows: Rows) -> None:
    audits = [audit(folder, text) for text in ("not_null: id", case.audit, "assert: sum >= 0", "row_count: {min: 1}")]
    before, broken, *after = evaluate(ODD, audits, rows, now=NOW)
    assert broken.state is State.ERROR
    assert broken.blocks
    assert case.says in broken.message
    assert "\n" not in broken.message
    assert [finding.bad for finding in (before, *after)] == [2, 1, 0]


def test_a_warning_that_cannot_be_asked_does_not_block(folder: Path, lake: Lake) -> None:
    (finding,) = evaluate(ODD, [audit(folder, "not_null: idd\nseverity: warn")], on_duckdb(lake, "main"), now=NOW)
    assert finding.state is State.ERROR
    assert not finding.blocks


def test_of_an_empty_table_nothing_is_bad_but_its_emptiness(folder: Path, rows: Rows) -> None:
    findings = evaluate(EMPTY, [audit(folder, case.audit) for case in CASES], rows, now=NOW, before=0)
    bad = {case.audit for case, finding in zip(CASES, findings, strict=True) if finding.state is not State.OK}
    assert bad == {case.audit for case in CASES if case.audit.startswith(("freshness", "row_count: {min"))}


def test_audits_of_rows_and_of_the_table_share_one_scan(folder: Path, counted: Counted) -> None:
    texts = (
        "not_null: [number]",
        "not_null: price\nwhere: price is not null",
        "assert: sum >= -5",
        "accepted_values: {column: select, values: [true, false]}",
        "row_count: {min: 1}",
        "freshness: {column: at, within: 1 hour}",
        "max_change: 20%",
    )
    findings = evaluate(ODD, [audit(folder, text) for text in texts], counted, now=NOW, before=6)
    assert {finding.state for finding in findings} == {State.OK}
    assert len(counted.queries) == 1


def test_what_the_metadata_knows_is_not_read(folder: Path, counted: Counted) -> None:
    audits = [audit(folder, text) for text in ("row_count: {min: 7}", "max_change: 50%")]
    findings = evaluate(ODD, audits, counted, now=NOW, count=6, before=2)
    assert [finding.message for finding in findings] == [
        "6 rows, not at least 7",
        "2 → 6 rows (+200.0%), 50% allowed",
    ]
    assert counted.queries == []


def test_only_what_failed_is_looked_at_twice(folder: Path, counted: Counted) -> None:
    audits = [audit(folder, text) for text in ("not_null: number", "not_null: id", "unique: id", "unique: number")]
    evaluate(ODD, audits, counted, now=NOW)
    assert len(counted.queries) == 1 + 1 + 2  # the scan, a grouping, two samples


def test_a_scope_narrows_what_holds_for_each_row_by_itself(folder: Path, rows: Rows) -> None:
    scope = Scope("order date", "`order date` >= DATE '2024-01-02' AND `order date` < DATE '2024-01-04'")
    texts = {
        "not_null: id": (1, 3),
        "assert: sum < 0": (1, 3),
        "relationships: {column: id, to: gold.others, key: key}": (0, 3),
        "unique: ['order date', id]": (2, 2),
        "unique: tick`s": (3, 5),  # another window can have the same
        "row_count: {max: 5}": (1, 6),
        "freshness: {column: at, within: 1 hour}": (0, None),
        "doubled: id": (1, None),
    }
    findings = evaluate(ODD, [audit(folder, text) for text in texts], rows, now=NOW, scope=scope)
    assert [(finding.bad, finding.checked) for finding in findings] == list(texts.values())
    assert findings[-1].message == "1 row is bad"


# What a key of each columns promises, and is broken by: all rows, those with a NULL in it, those like another.
KEYS = {
    ("id",): (4, "4 of 6 rows are bad: 2 with NULL in id and 2 with the same id as another"),
    ("price",): (3, "3 of 6 rows are bad: 1 with NULL in price and 2 with the same price as another"),
    ("number",): (0, ""),
    ("number", "a.b"): (1, "1 of 6 rows is bad: 1 with NULL in number, a.b"),
    ("select", "tick`s"): (
        4,
        "4 of 6 rows are bad: 2 with NULL in select, tick`s and 2 with the same select, tick`s as another",
    ),
}


def key(*columns: str, **about: bool) -> Audit:
    return Audit(Key(columns, **about), "orders.sql", 1)


@pytest.mark.parametrize(("columns", "broken"), KEYS.items())
def test_a_key_is_neither_null_nor_there_twice(
    columns: tuple[str, ...], broken: tuple[int, str], rows: Rows, counted: Counted
) -> None:
    (found,) = evaluate(ODD, [key(*columns)], counted, now=NOW)
    assert (found.bad, found.message, found.checked) == (*broken, 6)
    assert len(rows(found.query)) == found.bad
    assert len(counted.queries) == (
        3 if found.bad else 1
    )  # the scan, and a grouping and a sample where it does not hold
    (of_none,) = evaluate(EMPTY, [key(*columns)], rows, now=NOW)
    assert of_none.state is State.OK


def test_a_key_shares_the_scan_and_counts_its_values_once(folder: Path, counted: Counted) -> None:
    audits = [
        key("number"),
        *(audit(folder, text) for text in ("unique: number", "not_null: number", "assert: sum > -5")),
    ]
    assert {finding.state for finding in evaluate(ODD, audits, counted, now=NOW)} == {State.OK}
    assert len(counted.queries) == 1
    assert counted.queries[0].count("count(DISTINCT") == 1


def test_of_a_key_by_which_rows_are_written_only_null_is_looked_for(counted: Counted) -> None:
    found, other = evaluate(ODD, [key("id", built=True), key("number", built=True)], counted, now=NOW)
    assert (found.bad, found.message) == (2, "2 of 6 rows are bad: 2 with NULL in id")
    assert other.state is State.OK
    assert "DISTINCT" not in counted.queries[0]


def test_a_key_is_looked_at_among_the_new_windows_or_all_rows(rows: Rows) -> None:
    scope = Scope("order date", "`order date` >= DATE '2024-01-01' AND `order date` < DATE '2024-01-03'")
    found = evaluate(
        ODD, [key("select", whole=False), key("number", whole=False), key("number")], rows, now=NOW, scope=scope
    )
    assert [(each.bad, each.checked) for each in found] == [(2, 3), (0, 3), (0, 6)]


def test_the_id_of_a_key_s_audit_stays_whatever_is_asked_of_it() -> None:
    (id_,) = {key("id", "a.b", built=built, whole=whole).id for built in (True, False) for whole in (True, False)}
    assert re.fullmatch(r"key_id_a_b_[0-9a-f]{8}", id_)


def test_what_max_change_cannot_compare_passes(folder: Path, lake: Lake) -> None:
    (finding,) = evaluate(ODD, [audit(folder, "max_change: 1%")], on_duckdb(lake, "main"), now=NOW)
    assert finding.state is State.OK
    assert finding.message == "6 rows; nothing before to compare with"


def test_a_condition_that_duckdb_reads_differently_is_refused_there(folder: Path, lake: Lake) -> None:
    text = "assert: months_between(at, `order date`) < 2"
    (finding,) = evaluate(ODD, [audit(folder, text)], on_duckdb(lake, "main"), now=NOW)
    assert finding.state is State.ERROR
    assert "months_between" in finding.message
    assert "mere audit --spark" in finding.message


def test_a_finding_is_plain_json(folder: Path, rows: Rows) -> None:
    (finding,) = evaluate(ODD, [audit(folder, "assert: price < 100")], rows, now=NOW)
    sample = json.loads(json.dumps(finding.to_dict(), allow_nan=False))["sample"]
    assert [row["price"] for row in sample] == ["nan", "nan"]
    assert [row["sum"] for row in sample] == ["-2.25", None]
    assert sample[0]["at"] == "2024-01-02 00:00:00+00:00"

"""Histories built by runs: whatever happens upstream and whenever a run comes, they are what was observed."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from mere.lake import faults
from mere.pipeline.state.observations import walk
from tests.conftest import OpenSession
from tests.pipeline.conftest import MakeShop
from tests.pipeline.histories import History, compared, timed
from tests.pipeline.shop import Shop

TABLE = "landing.customers"
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("score", pa.int64()),
        pa.field("updated", pa.timestamp("us", tz="UTC")),
    ]
)
EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
Row = tuple[int | None, str | None, int | None, datetime | None]

COMPARED = """
    -- kind: scd2
    -- key: id
    -- audits: [{not_null: [id, valid_from]}]
    SELECT id, max_by(name, updated) AS name, max_by(score, updated) AS score
    FROM landing.customers
    GROUP BY id
"""
TIMED = """
    -- kind: scd2
    -- key: id
    -- updated_at: updated
    SELECT id, name, score, updated FROM landing.customers
"""
NAMES = """
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    from mere import model, table


    @model("dim.names", kind="scd2", key="id", compare=["NAME"])
    def names(raw: DataFrame = table("landing.customers")) -> DataFrame:
        return raw.groupBy("id").agg(F.max_by("name", "updated").alias("name"), F.max("score").alias("score"))
"""
PLAIN = """
    -- kind: scd2
    -- key: id
    SELECT id, name FROM landing.customers
"""


def day(number: float) -> datetime:
    return EPOCH + timedelta(days=number)


def row(id_: int | None, name: str | None, score: int | None = None, updated: float | None = 0) -> Row:
    return id_, name, score, None if updated is None else day(updated)


class Customers:
    """The table upstream, written by somebody who knows nothing of mere, with what was committed there and when."""

    def __init__(self, it: Shop) -> None:
        self.it = it
        self.rows: list[Row] = []
        self.observed: list[tuple[datetime, list[Row]]] = []
        it.lake.pyiceberg().create_table(TABLE, SCHEMA)

    @property
    def _table(self) -> Any:
        return self.it.lake.pyiceberg().load_table(TABLE)

    def add(self, *rows: Row) -> None:
        self._commit(lambda table: table.append(arrow(rows)), [*self.rows, *rows])

    def delete(self, *ids: int) -> None:
        self._commit(lambda table: table.delete(_among(ids)), [each for each in self.rows if each[0] not in ids])

    def put(self, *rows: Row) -> None:
        """The rows of their ids, in place of all that there were: two snapshots in one commit."""
        ids = [id_ for id_, *_ in rows if id_ is not None]
        kept = [each for each in self.rows if each[0] not in ids]
        self._commit(lambda table: table.overwrite(arrow(rows), _among(ids)), [*kept, *rows])

    def replace(self, *rows: Row) -> None:
        self._commit(lambda table: table.overwrite(arrow(rows)), list(rows))

    def _commit(self, write: Callable[[Any], None], rows: list[Row]) -> None:
        before = self._snapshot()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyIceberg warns when it had to rewrite a file, or deletes nothing
            write(self._table)
        self.rows = rows
        if (snapshot := self._snapshot()) != before:
            at = EPOCH.fromtimestamp(snapshot.at_ms / 1000, UTC) if snapshot else EPOCH
            if self.observed:
                at = max(at, self.observed[-1][0] + timedelta(microseconds=1))
            self.observed.append((at, list(rows)))

    def _snapshot(self) -> Any:
        current = self.it.lake.at("main").metadata(TABLE).current
        return current and _Snapshot(current.id, current.at_ms)

    # What must come of it.

    def compared(self, columns: slice = slice(None)) -> list[tuple[Any, ...]]:
        history: History = []
        for at, rows in self.observed:
            newest = {each[0]: each for each in sorted(rows, key=lambda each: each[3] or EPOCH)}
            history = compared(history, at, {id_: each[1:3] for id_, each in newest.items()}, columns)
        return flat(history)

    def timed(self) -> list[tuple[Any, ...]]:
        return flat(timed([(at, [(each[0], each[3], each[1:]) for each in rows]) for at, rows in self.observed]))


class _Snapshot(tuple[int, int]):
    def __new__(cls, id_: int, at_ms: int) -> _Snapshot:
        return super().__new__(cls, (id_, at_ms))

    @property
    def at_ms(self) -> int:
        return self[1]


def arrow(rows: Iterable[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, each, strict=True)) for each in rows], schema=SCHEMA)


def _among(ids: Iterable[int]) -> str:
    return f"id in ({', '.join(map(str, ids))})"


def flat(history: History) -> list[tuple[Any, ...]]:
    rows = [(each.key, *each.values, each.valid_from, each.valid_to, each.is_current) for each in history]
    return sorted(rows, key=in_order)


def in_order(row: tuple[Any, ...]) -> list[str]:
    """A key to sort by: as text, second 9 of a time would come after second 10."""
    return [each.isoformat() if isinstance(each, datetime) else repr(each) for each in row]


def history_of(it: Shop, table: str, at: str = "main") -> list[tuple[Any, ...]]:
    def utc(value: Any) -> Any:
        return value.astimezone(UTC) if isinstance(value, datetime) else value

    return sorted((tuple(map(utc, each)) for each in it.rows(table, at)), key=in_order)


def project(shop: MakeShop, **models: str) -> Customers:
    """`plain_sql=PLAIN` is models/dim/plain.sql."""
    return Customers(shop({f"models/dim/{'.'.join(name.rsplit('_', 1))}": text for name, text in models.items()}))


def change(by: random.Random, up: Customers) -> None:
    """Something that happens upstream."""
    ids = sorted({id_ for id_, *_ in up.rows if id_ is not None})
    fresh = row(by.randint(1, 6), by.choice(["ann", "bob", None]), by.choice([1, 2, None]), by.randint(0, 500) / 10)
    some = by.sample(ids, min(len(ids), 2))
    match by.choice(["add", "add", "update", "update", "delete", "late", "again", "replace"]):
        case "add":
            if all((each[0], each[3]) != (fresh[0], fresh[3]) for each in up.rows):
                up.add(fresh)
        case "update" if some:
            up.put(*((id_, *fresh[1:3], day(60 + by.random())) for id_ in some))
        case "delete" if some:
            up.delete(*some)
        case "late" if some:
            up.add((some[0], "late", None, day(-by.random())))
        case "again" if up.rows:
            up.put(*(each for each in up.rows if each[0] == up.rows[0][0]))
        case "replace":
            up.replace(*by.sample(up.rows, len(up.rows) // 2), (7, "new", 1, day(by.random())))


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 9))])
def test_a_history_is_what_was_observed_whenever_runs_come(shop: MakeShop, spark_on: OpenSession, seed: int) -> None:
    by = random.Random(seed)
    up = project(shop, compared_sql=COMPARED, timed_sql=TIMED, **({"names_py": NAMES} if seed > 1 else {}))
    up.add(row(1, "ann", 1), row(2, "bob", None))
    for turn in range(2):
        for _ in range(2 if seed == 1 else by.randint(2, 6)):
            change(by, up)
        if turn == 1:
            spark = spark_on(up.it.lake, "main").spark
            spark.sql(f"CALL main.system.rewrite_data_files(table => '{TABLE}', options => map('rewrite-all', 'true'))")
        up.it.run()
        as_observed(up)
    assert up.it.plan() == {}
    up.it.run("--full-refresh")
    as_observed(up)


def as_observed(up: Customers) -> None:
    expected = {"dim.compared": up.compared(), "dim.timed": up.timed(), "dim.names": names_of(up)}
    for table in up.it.lake.at("main"):
        if table.namespace == "dim":
            assert history_of(up.it, str(table)) == expected[str(table)], table


def names_of(up: Customers) -> list[tuple[Any, ...]]:
    """By name alone; the score is the one that was seen first with it."""
    history: History = []
    for at, rows in up.observed:
        newest = {each[0]: each for each in sorted(rows, key=lambda each: each[3] or EPOCH)}
        scores = {id_: [each[2] for each in rows if each[0] == id_ and each[2] is not None] for id_ in newest}
        here = {id_: (each[1], max(scores[id_], default=None)) for id_, each in newest.items()}
        history = compared(history, at, here, slice(0, 1))
    return flat(history)


def test_versions_begin_when_they_were_committed_and_end_when_they_change_or_go(shop: MakeShop) -> None:
    up = project(shop, names_py=NAMES)
    up.add(row(1, "ann", 1), row(2, None, 1))
    up.it.run()
    up.put(row(2, "bob", 1))
    up.delete(1)
    up.put(row(2, "bob", 5))  # a column that is not compared
    assert up.it.plan()["dim.names"]["reasons"] == ["3 new snapshots of landing.customers"]
    up.it.run()
    up.add(row(1, "ann", 1))
    up.it.run()
    first, second, third, _, back = (at for at, _ in up.observed)
    assert history_of(up.it, "dim.names") == [
        (1, "ann", 1, first, third, False),
        (1, "ann", 1, back, None, True),
        (2, "bob", 1, second, None, True),
        (2, None, 1, first, second, False),
    ]
    # At any time it shows what was there at that time.
    for at, rows in up.observed:
        then = f"TIMESTAMPTZ '{at.isoformat()}'"
        held = f"valid_from <= {then} and (valid_to > {then} or valid_to is null)"
        assert up.it.rows(f"select id, name from dim.names where {held}") == sorted(
            (each[:2] for each in rows), key=in_order
        )
    # And the history itself has a history.
    assert len(up.it.rows("dim.names", "main~2")) == 3


def test_rows_that_cannot_be_told_apart_are_shown_and_nothing_is_written(shop: MakeShop) -> None:
    up = project(shop, plain_sql=PLAIN, timed_sql=TIMED)
    up.add(row(1, "ann"), row(2, "bob"))
    up.it.run()
    before = {table: entry for table, entry in up.it.pointers().items() if "dim" in str(table)}
    up.add(row(2, "rob"))
    _, said = up.it.failed_run()
    assert "models/dim/plain.sql:3: dim.plain has several rows of one id at one time." in said
    assert "id: 2, name: bob" in said
    assert "id: 2, name: rob" in said
    assert "id: 1" not in said
    assert "models/dim/timed.sql:4: dim.timed has several rows of one id with one updated." in said
    assert {table: entry for table, entry in up.it.pointers().items() if "dim" in str(table)} == before
    # When it is mended, what could not be told is passed over.
    up.put(row(2, "rob", None, 5))
    up.it.run()
    first, _, mended = (at for at, _ in up.observed)
    assert history_of(up.it, "dim.plain") == [
        (1, "ann", first, None, True),
        (2, "bob", first, mended, False),
        (2, "rob", mended, None, True),
    ]
    assert [each[1] for each in history_of(up.it, "dim.timed")] == ["ann", "bob", "rob"]


def test_rows_without_a_key_or_a_time_are_shown(shop: MakeShop) -> None:
    up = project(shop, plain_sql=PLAIN, timed_sql=TIMED)
    up.add(row(None, "nobody"), row(3, "eve", 1, None))
    _, said = up.it.failed_run()
    assert "dim.plain has rows without id." in said
    assert "id: None, name: nobody" in said
    assert "dim.timed has rows without" in said
    assert "WHERE id IS NOT NULL" in said


def test_a_history_outlives_the_snapshots_that_told_it(shop: MakeShop) -> None:
    up = project(shop, plain_sql=PLAIN)
    up.add(row(1, "ann"))
    up.it.run()
    up.put(row(1, "bob"))
    up.put(row(1, "eve"))
    up.add(row(2, "joe"))
    metadata = up.it.lake.at("main").metadata(TABLE)
    lost = [each.id for each in metadata.snapshots[:-2]]
    up._table.maintenance.expire_snapshots().by_ids(lost).commit()
    (step,) = up.it.plan().values()
    assert (step["action"], step["reasons"]) == ("keys", ["2 new snapshots of landing.customers"])
    assert "it is observed again" in step["notes"][0]
    up.it.run()
    times = [at for at, _ in up.observed]
    assert history_of(up.it, "dim.plain") == [
        (1, "ann", times[0], times[2], False),
        (1, "eve", times[2], None, True),
        (2, "joe", times[3], None, True),
    ]
    up.it.run("--full-refresh", "dim.plain")
    assert history_of(up.it, "dim.plain") == [(1, "eve", times[2], None, True), (2, "joe", times[3], None, True)]


def test_new_code_waits_for_a_decision_and_goes_on_from_what_stands(shop: MakeShop) -> None:
    up = project(shop, plain_sql=PLAIN)
    up.add(row(1, "ann", 1), row(2, "bob", 2))
    up.it.run()
    up.it.replace("models/dim/plain.sql", "SELECT id, name", "SELECT id, name, score")
    up.put(row(1, "rob", 1))
    (step,) = up.it.plan().values()
    assert (step["action"], step["reasons"]) == ("blocked", ["SQL changed"])
    assert "--forward-only dim.plain" in step["remedy"]
    assert "--full-refresh dim.plain" in step["remedy"]
    up.it.run("--forward-only", "dim.plain")
    first, second = (at for at, _ in up.observed)
    assert sorted(up.it.rows("select id, name, score, is_current from dim.plain"), key=in_order) == [
        (1, "ann", None, False),
        (1, "rob", 1, True),
        (2, "bob", None, True),
    ]
    up.it.replace("models/dim/plain.sql", "-- key: id", "-- key: id\n-- compare: name")
    (step,) = up.it.plan().values()
    assert step["action"] == "blocked"
    assert "its history would be lost" in step["reasons"][0]
    up.it.run("--full-refresh", "dim.plain")
    assert {at.astimezone(UTC) for (at,) in up.it.rows("select valid_from from dim.plain")} == {first, second}


class Crash(BaseException):
    """Not an Exception: no handler may mend it, as none can mend a kill."""


@pytest.mark.parametrize("point", ["run.written", pytest.param("run.publishing", marks=pytest.mark.long)])
def test_a_run_that_dies_is_mended_by_the_next(shop: MakeShop, point: str) -> None:
    up = project(shop, timed_sql=TIMED)
    up.add(row(1, "ann"), row(2, "bob"))
    up.it.run()
    up.delete(1)
    up.add(row(3, "eve"))

    def die(reached: str) -> None:
        if reached == point:
            raise Crash

    faults.hook = die
    with pytest.raises(Crash):
        up.it("run")
    faults.hook = None
    run = up.it.runs()[0]["id"]
    up.put(row(2, "rob", None, 4))
    up.it("run", *(("--resume", run) if point == "run.written" else ()))
    assert history_of(up.it, "dim.timed") == up.timed()


def test_several_inputs_are_observed_once_a_run_and_so_is_a_view(shop: MakeShop) -> None:
    it = shop(
        {
            "seeds/raw/cities.csv": "id,city\n1,Wien\n2,Rom\n",
            "models/dim/both.sql": """
                -- kind: scd2
                -- key: id
                SELECT c.id, c.name, v.city FROM landing.customers AS c LEFT JOIN raw.cities AS v ON v.id = c.id
            """,
            "models/staging/loud.sql": "-- kind: view\nSELECT id, upper(name) AS name FROM landing.customers",
            "models/dim/loud.sql": "-- kind: scd2\n-- key: id\nSELECT id, name FROM staging.loud",
        }
    )
    up = Customers(it)
    up.add(row(1, "ann"))
    it.run()
    seeded = it.lake.at("main").metadata("raw.cities").current
    assert seeded
    begun = datetime.fromtimestamp(seeded.at_ms / 1000, UTC)
    assert history_of(it, "dim.both") == [(1, "ann", "Wien", begun, None, True)]
    up.put(row(1, "bob"))
    up.put(row(1, "eve"))
    up.add(row(2, "joe"))
    it.run()
    first, last = up.observed[0][0], up.observed[-1][0]
    assert history_of(it, "dim.loud") == [
        (1, "ANN", first, last, False),
        (1, "EVE", last, None, True),
        (2, "JOE", last, None, True),
    ]
    it.write({"seeds/raw/cities.csv": "id,city\n1,Oslo\n"})
    it.run()
    assert sorted(it.rows("select id, name, city from dim.both where is_current")) == [
        (1, "eve", "Oslo"),
        (2, "joe", None),
    ]


def test_a_run_whose_input_goes_on_within_it_observes_only_how_it_ends(shop: MakeShop) -> None:
    """A rebase builds the input a second time in the same run: what it was in between, nobody has ever read."""
    files = {
        "models/silver/customers.sql": "SELECT id, name FROM landing.customers",
        "models/dim/plain.sql": PLAIN.replace("landing.customers", "silver.customers"),
        "models/gold/other.sql": "SELECT count(*) AS n FROM landing.events",
    }
    up = Customers(shop(files))
    up.add(row(1, "ann"))
    up.it.run()
    up.put(row(1, "bob"))
    up.it.land((1, 1, "2024-02-01T10:00", 10))
    meanwhile = iter([True])

    def interfere(reached: str) -> None:
        if reached == "run.publishing" and next(meanwhile, False):
            up.put(row(1, "eve"))
            up.it.lake.set_properties({"gold.other": {"owner": "ann"}}, on="main")

    faults.hook = interfere
    events = up.it.run()
    faults.hook = None
    assert "rebase" in [event["event"] for event in events]
    metadata = up.it.lake.at("main").metadata("silver.customers")
    looks = walk(metadata, None, None)
    assert (len(metadata.snapshots), len(looks)) == (3, 2)
    assert history_of(up.it, "dim.plain") == [
        (1, "ann", looks[0].at, looks[1].at, False),
        (1, "eve", looks[1].at, None, True),
    ]
    before = history_of(up.it, "dim.plain")
    up.it.run("--full-refresh", "dim.plain")
    assert history_of(up.it, "dim.plain") == before


def test_an_empty_input_makes_an_empty_history(shop: MakeShop) -> None:
    up = project(shop, plain_sql=PLAIN)
    up.it.run()
    assert up.it.rows("dim.plain") == []
    up.add(row(1, "ann"))
    up.delete(1)
    up.it.run()
    (first, _), (second, _) = up.observed
    assert history_of(up.it, "dim.plain") == [(1, "ann", first, second, False)]

"""What is written about a source becomes a model, or an error that names the place and the way out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from mere import config
from mere.audits.audit import DEFAULT_MAX_BAD
from mere.errors import ConfigError
from mere.names import TableName
from mere.project.files.source import READABLE
from mere.project.kinds import Kind
from mere.project.model import Model
from mere.sources import declaration
from mere.sources.meaning import differences
from mere.sources.source import (
    Database,
    Declared,
    Files,
    Format,
    Function,
    OnChange,
    OnNewColumn,
    Paging,
    Rest,
    Snapshots,
    Source,
    Trace,
)
from mere.sources.variables import with_variables
from tests.project.conftest import MakeProject

TRIPS = "sources/bronze/trips.yaml"


def source_of(model: Model) -> Source:
    assert isinstance(model.body, Source)
    return model.body


def feed_of(project: MakeProject, text: str, name: str = "bronze.trips") -> object:
    return source_of(project({f"sources/{name.replace('.', '/')}.yaml": text}).model(name)).feed


def test_a_source_is_a_model_that_also_writes_its_quarantine_and_its_ledger(project: MakeProject) -> None:
    model = project({TRIPS: "files: data/{year}-{month}.csv"}).model("bronze.trips")
    assert model.kind is Kind.SOURCE
    assert model.writes == (
        TableName("bronze", "trips"),
        TableName("bronze", "trips__quarantine"),
        TableName("bronze", "trips__loads"),
    )
    assert [(audit.name, audit.quarantine, audit.max_bad) for audit in model.audits] == [
        (READABLE, True, DEFAULT_MAX_BAD)
    ]


def test_a_file_directly_in_the_folder_belongs_to_bronze(project: MakeProject) -> None:
    assert project({"sources/trips.yaml": "files: data/a.csv"}).model("bronze.trips").kind is Kind.SOURCE


def test_models_may_read_the_table_the_quarantine_and_the_ledger(project: MakeProject) -> None:
    graph = project(
        {
            TRIPS: "files: data/a.csv",
            "models/gold/dirt.sql": "SELECT _why FROM bronze.trips__quarantine",
            "models/gold/files.sql": "SELECT portion FROM bronze.trips__loads",
        }
    ).load()
    trips = TableName("bronze", "trips")
    assert {graph.maker(each) for each in (trips, *trips.companions)} == {trips}
    assert next(iter(graph.models)) == trips
    assert graph.downstream([trips]) == set(graph.models)


def test_every_setting_of_files(project: MakeProject) -> None:
    model = project(
        {
            TRIPS: """
            files: s3://bucket/in/{year}/{date}_*.dat
            format: csv
            csv: {delimiter: ";", quote: "'", header: false, encoding: iso-8859-1, null: NULL, multiline: true}
            columns:
              id: bigint
              fare: {type: "decimal(10, 2)", from: Fare Amount, description: in dollars}
              at: {type: timestamp, format: dd/MM/yyyy}
              note: {optional: true}
            on_change: fail
            on_new_column: ignore
            max_bad: 10
            batch: 5
            snapshots: each
            empty_files: skip
            names: keep
            path_columns: false
            trace: {file: origin, run: null, raw: line}
            every: 6h
            s3: {endpoint: "http://127.0.0.1:9000", access_key: "${KEY}", secret_key: "${SECRET}", path_style: true}
            start: 2024-01
            key: id
            partition_by: month(at)
            """
        }
    ).model("bronze.trips")
    source = source_of(model)
    feed = source.feed
    assert isinstance(feed, Files)
    assert (feed.location, feed.format, feed.batch, feed.skip_empty) == (
        "s3://bucket/in/{year}/{date}_*.dat", Format.CSV, 5, True,
    )  # fmt: skip
    assert feed.text.delimiter == ";"
    assert (feed.text.header, feed.text.encoding, feed.text.null, feed.text.multiline) == (
        False, "iso-8859-1", "NULL", True,
    )  # fmt: skip
    assert (feed.on_change, feed.snapshots) == (OnChange.FAIL, Snapshots.EACH)
    assert feed.start == datetime(2024, 1, 1, tzinfo=UTC)
    assert feed.s3 is not None
    assert feed.s3.access_key == "${KEY}"
    assert source.columns == {
        "id": Declared("bigint"),
        "fare": Declared("decimal(10, 2)", "Fare Amount"),
        "at": Declared("timestamp", format="dd/MM/yyyy"),
        "note": Declared(optional=True),
    }
    assert source.on_new_column is OnNewColumn.IGNORE
    assert source.trace == Trace("origin", "_loaded_at", None, "line")
    assert (source.keep_names, source.path_columns, source.every) == (True, False, timedelta(hours=6))
    assert (model.key, model.partition_by, model.columns) == (("id",), ("month(at)",), {"fare": "in dollars"})
    assert str(model.audits[0].max_bad) == "10 rows"


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("a.csv", Format.CSV),
        ("a.csv.gz", Format.CSV),
        ("a.tsv.zst", Format.CSV),
        ("*.jsonl", Format.JSONL),
        ("{year}.ndjson.gz", Format.JSONL),
        ("a.json", Format.JSON),
        ("**/a.parquet", Format.PARQUET),
    ],
)
def test_the_format_is_told_by_the_name(project: MakeProject, name: str, format_: Format) -> None:
    feed = feed_of(project, f"files: data/{name}")
    assert isinstance(feed, Files)
    assert feed.format is format_


def test_an_api(project: MakeProject) -> None:
    feed = feed_of(
        project,
        """
        rest:
          url: https://api.example.com/trips
          headers: {Authorization: "Bearer ${TOKEN}"}
          records: data.items
          paging: {cursor: after, next: meta.next, limit: size, size: 50}
          cursor: updated_at
          since: from
          overlap: 10m
          rate: 30/m
          retries: 2
          timeout: 5s
        """,
    )
    assert feed == Rest(
        "https://api.example.com/trips",
        {"Authorization": "Bearer ${TOKEN}"},
        {},
        "data.items",
        Paging(cursor="after", next="meta.next", limit="size", size=50),
        "updated_at",
        "from",
        timedelta(minutes=10),
        0.5,
        2,
        timedelta(seconds=5),
    )


def test_the_records_of_an_api_are_kept_as_they_came(project: MakeProject) -> None:
    model = project({TRIPS: "rest: {url: https://api.example.com}"}).model("bronze.trips")
    assert source_of(model).trace.raw == "_raw"


def test_a_database(project: MakeProject) -> None:
    feed = feed_of(
        project,
        """
        database:
          url: postgresql://reader:${PASSWORD}@db/shop
          table: public.orders
          cursor: id
          overlap: 100
          partitions: {column: id, count: 4}
        """,
    )
    url = "postgresql://reader:${PASSWORD}@db/shop"
    assert feed == Database(url, "public.orders", None, "id", 100, "id", 4)


def test_a_function(project: MakeProject) -> None:
    model = project(
        {
            "sources/bronze/rates.py": """
            from mere import source

            @source("bronze.rates", cursor="day", key="day", every="1h", max_bad=0)
            def rates(spark, since=None):
                return spark.sql("SELECT 1")
            """
        }
    ).model("bronze.rates")
    source = source_of(model)
    assert source.feed == Function("rates", "day", frozenset({"spark", "since"}))
    assert (model.key, source.every, source.line) == (("day",), timedelta(hours=1), 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("columns: {a: int}", "does not say where its data is"),
        ("files: a.csv\nrest: {url: x}", "has `files` and `rest`"),
        ("files: a.dat", "is not clear from their names"),
        ("files: a.csv\nfromat: csv", "unknown key `fromat`"),
        ("files: a.parquet\ncsv: {header: true}", "`csv` has no effect"),
        ("files: a.csv\ns3: {region: eu}", "`s3` has no effect"),
        ("files: a.csv\ncsv: {delimiter: ;;}", "must be one character"),
        ("files: a.csv\non_change: skip", "cannot be `skip`"),
        ("files: a.csv\nmax_bad: few", "cannot be `few`"),
        ("files: a.csv\ntrace: {file: null}", "its rows cannot be replaced"),
        ("files: a.csv\ntrace: {file: _file}", "Iceberg keeps the name"),
        ("files: a.csv\ntrace: {run: a, file: a}", "two columns of `trace` have one name"),
        ("files: a.csv\ncolumns: {_run: int}", "is a column that mere adds itself"),
        ("files: data/{day}.csv", "`files` cannot be"),
        ("files: https://h/{year}.csv", "say when they begin"),
        ("files: s3://b/a.csv\ns3: {access_key: abc, secret_key: abc}", "holds a secret"),
        ("rest: {url: https://h, cursor: at}", "`cursor` and `since` belong together"),
        ("rest: {url: https://h, paging: {page: p, offset: o}}", "one way to the next page"),
        ("rest: {url: https://h, rate: fast}", "requests in a time"),
        ("rest: {}", "needs `url`"),
        ("rest: {url: https://h}\nbatch: 5", "`batch` has no effect"),
        ("database: {url: 'postgresql://u:secret@h/d', table: t}", "holds a password"),
        ("database: {url: 'postgresql://h/d'}", "needs a `table` or a `query`"),
        ("database: {url: 'postgresql://h/d', table: t, overlap: 5}", "has no effect without a `cursor`"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(project: MakeProject, text: str, message: str) -> None:
    problem = project({TRIPS: text}).problem()
    assert message in problem.problem
    assert problem.file == TRIPS
    assert problem.line is not None


def test_a_secret_that_is_written_out_is_not_repeated_in_the_error(project: MakeProject) -> None:
    problem = project({TRIPS: "database: {url: 'postgresql://u:hunter2@h/d', table: t}"}).problem()
    assert "hunter2" not in str(problem)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('@model("bronze.rates")\ndef rates(spark): ...', "wrong folder"),
        ('@source("bronze.rates")\nasync def rates(spark): ...', "async"),
        ('@source("bronze.rates")\ndef rates(spark, since): ...', "needs a cursor"),
        ('@source("bronze.rates")\ndef rates(spark, when): ...', "parameter `when`"),
        ('@source("bronze.rates")\ndef rates(a=table("x.y")): ...', "reads nothing in the lake"),
        ('@source("bronze.rates", files="a")\ndef rates(spark): ...', "unknown key `files`"),
        ('@source("gold.rates")\ndef rates(spark): ...', "folder of another schema"),
        ("@source\ndef rates(spark): ...", "needs the source's name"),
    ],
)
def test_what_is_wrong_with_a_function(project: MakeProject, text: str, message: str) -> None:
    problem = project({"sources/bronze/rates.py": f"from mere import model, source, table\n{text}\n"}).problem()
    assert message in problem.problem


# Each setting with two values: whether what the columns mean is another thing by the second.
SAME, OTHER = "same", "other"
COLUMN = "files: a.csv\ncolumns: {a: %s}"
FILES_MEAN = [
    ("files", "files: data/a.csv", "files: s3://b/a.csv", SAME),
    ("files", "files: data/a-{date}.csv", "files: '${PLACE}/b/a-{date}.csv'", SAME),
    ("files", "files: data/a.csv", "files: data/b.csv", OTHER),
    ("files", "files: data/*/*.csv", "files: data/**/*.csv", OTHER),
    ("files", "files: data/*/a.csv", "files: data/e*/a.csv", OTHER),
    ("files", "files: data/*.csv", "files: data/?.csv", OTHER),
    ("files", "files: data/a-{date}.csv", "files: data/b/c_{date}.csv", OTHER),
    ("files", "files: data/a-{date}.csv", "files: data/a-*.csv", OTHER),
    ("files", "files: data/{a}-{b}.csv", "files: data/{b}-{a}.csv", OTHER),
    ("files", "files: data/{a}-*.csv", "files: data/*-{a}.csv", OTHER),
    ("files", "files: data/{a}.csv\npath_columns: false", "files: data/*.csv\npath_columns: false", OTHER),
    ("path_columns", "files: data/{a}.csv", "files: data/{a}.csv\npath_columns: false", OTHER),
    ("format", "files: data/a.csv", "files: data/a.csv\nformat: jsonl", OTHER),
    ("on_change", "files: a.csv", "files: a.csv\non_change: append", SAME),
    ("batch", "files: a.csv", "files: a.csv\nbatch: 3", SAME),
    ("empty_files", "files: a.csv", "files: a.csv\nempty_files: skip", SAME),
    ("s3", "files: s3://b/a.csv", "files: s3://b/a.csv\ns3: {endpoint: 'http://127.0.0.1:1'}", SAME),
    ("snapshots", "files: a.csv", "files: a.csv\nsnapshots: each", SAME),
    ("start", "files: a.csv", "files: a.csv\nstart: 2024-01", OTHER),
    ("columns", "files: a.csv\ncolumns: {a: int, b: int}", "files: a.csv\ncolumns: {b: int, a: int}", SAME),
    ("columns.type", COLUMN % "int", COLUMN % "bigint", OTHER),
    ("columns.from", COLUMN % "{from: A}", COLUMN % "{from: B}", OTHER),
    ("columns.format", COLUMN % "{type: date}", COLUMN % "{type: date, format: d}", OTHER),
    ("columns.optional", COLUMN % "int", COLUMN % "{type: int, optional: true}", SAME),
    ("columns.description", COLUMN % "int", COLUMN % "{type: int, description: x}", SAME),
    ("names", "files: a.csv", "files: a.csv\nnames: keep", OTHER),
    ("trace", "files: a.csv", "files: a.csv\ntrace: {raw: line}", OTHER),
    ("on_new_column", "files: a.csv", "files: a.csv\non_new_column: ignore", SAME),
    ("max_bad", "files: a.csv", "files: a.csv\nmax_bad: 3", SAME),
    ("every", "files: a.csv", "files: a.csv\nevery: 1h", SAME),
    ("csv.delimiter", "files: a.csv", "files: a.csv\ncsv: {delimiter: tab}", OTHER),
    ("csv.quote", "files: a.csv", "files: a.csv\ncsv: {quote: '~'}", OTHER),
    ("csv.escape", "files: a.csv", "files: a.csv\ncsv: {escape: '~'}", OTHER),
    ("csv.header", "files: a.csv", "files: a.csv\ncsv: {header: false}", OTHER),
    ("csv.header", "files: a.csv\ncsv: {header: false}\ncolumns: {a: int, b: int}",
     "files: a.csv\ncsv: {header: false}\ncolumns: {b: int, a: int}", OTHER),
    ("csv.encoding", "files: a.csv", "files: a.csv\ncsv: {encoding: windows-1252}", OTHER),
    ("csv.null", "files: a.csv", "files: a.csv\ncsv: {null: NA}", OTHER),
    ("csv.multiline", "files: a.csv", "files: a.csv\ncsv: {multiline: true}", OTHER),
]  # fmt: skip
REST = "rest: {url: 'https://a.example/v1/orders'%s}"
REST_MEAN = [
    ("url", REST % "", "rest: {url: '${HOST}/v1/orders'}", SAME),
    ("url", REST % "", "rest: {url: 'https://a.example/v1/customers'}", OTHER),
    ("headers", REST % "", REST % ", headers: {Authorization: x}", SAME),
    ("params", REST % "", REST % ", params: {currency: EUR}", OTHER),
    ("records", REST % "", REST % ", records: data", OTHER),
    ("paging", REST % "", REST % ", paging: {page: p}", SAME),
    ("cursor", REST % ", cursor: a, since: s", REST % ", cursor: b, since: s", OTHER),
    ("since", REST % ", cursor: a, since: s", REST % ", cursor: a, since: t", SAME),
    ("overlap", REST % ", cursor: a, since: s", REST % ", cursor: a, since: s, overlap: 1h", SAME),
    ("rate", REST % "", REST % ", rate: 1/s", SAME),
    ("retries", REST % "", REST % ", retries: 2", SAME),
    ("timeout", REST % "", REST % ", timeout: 2s", SAME),
    ("largest", REST % "", REST % ", largest: 2GB", SAME),
    ("key", REST % ", cursor: a, since: s" + "\nkey: id", REST % ", cursor: a, since: s" + "\nkey: [id, n]", OTHER),
    ("key", REST % "" + "\nkey: id", REST % "" + "\nkey: [id, n]", SAME),
]
DATABASE = "database: {url: 'jdbc:x://a/b'%s}"
DATABASE_MEAN = [
    ("url", DATABASE % ", table: t", "database: {url: 'jdbc:x://c/d', table: t}", SAME),
    ("table", DATABASE % ", table: t", DATABASE % ", table: u", OTHER),
    ("query", DATABASE % ", query: SELECT 1 AS a", DATABASE % ", query: SELECT 2 AS a", OTHER),
    ("cursor", DATABASE % ", table: t, cursor: a", DATABASE % ", table: t, cursor: b", OTHER),
    ("overlap", DATABASE % ", table: t, cursor: a", DATABASE % ", table: t, cursor: a, overlap: 5", SAME),
    ("partitions", DATABASE % ", table: t", DATABASE % ", table: t, partitions: {column: a, count: 2}", SAME),
]


@pytest.mark.parametrize(("setting", "one", "two", "verdict"), [*FILES_MEAN, *REST_MEAN, *DATABASE_MEAN])
def test_what_changes_the_meaning_of_the_columns_changes_the_code(
    project: MakeProject, setting: str, one: str, two: str, verdict: str
) -> None:
    codes = [project({TRIPS: text}).model("bronze.trips").code for text in (one, two)]
    assert (SAME if codes[0] == codes[1] else OTHER) == verdict


def test_of_every_setting_it_is_known_whether_it_changes_the_meaning() -> None:
    every = {key for key in (*declaration.OF_FILES, *declaration.OF_ALL) if key not in ("csv",)}
    every |= {f"csv.{key}" for key in declaration.CSV_KEYS} | {f"columns.{key}" for key in declaration.COLUMN_KEYS}
    assert {setting for setting, *_ in FILES_MEAN} == {"files", *every}
    assert {setting for setting, *_ in REST_MEAN} == {*declaration.REST_KEYS, "key"}
    assert {setting for setting, *_ in DATABASE_MEAN} == set(declaration.DATABASE_KEYS)


def test_a_change_is_told_in_words_without_what_may_be_secret(project: MakeProject) -> None:
    def said(text: str) -> Mapping[str, str]:
        return source_of(project({TRIPS: text}).model("bronze.trips")).settings

    one = said("rest: {url: 'https://a.example/v1/orders?token=t0ken', params: {secret: s3cret, n: 5}, records: data}")
    two = said("rest: {url: 'https://a.example/v2/orders?token=other', params: {secret: other}}")
    assert differences(one, two) == [
        "`rest.params.n` changed",
        "`rest.params.secret` changed",
        "`rest.records` was data, is now empty",
        "`rest.url` was /v1/orders, is now /v2/orders",
        "`rest.url` changed",
    ]
    file = said("files: https://user:${PW}@h.example/a.csv?token=t0ken")
    assert not [each for each in ("t0ken", "s3cret", "user") if each in str([*one.values(), *file.values()])]


@pytest.mark.parametrize("files", ["a-?.csv", "s3://b/a-?.csv.gz", "${DATA}/a-?.csv", "${DATA}/a.csv?token=1", "?.csv"])
def test_the_format_is_told_by_a_name_with_a_question_mark(project: MakeProject, files: str) -> None:
    feed = source_of(project({TRIPS: f'files: "{files}"'}).model("bronze.trips")).feed
    assert isinstance(feed, Files)
    assert feed.format is Format.CSV


def test_a_place_of_a_profile_may_have_other_fields(project: MakeProject) -> None:
    graph = project({TRIPS: "files: data/{day}.csv".replace("{day}", "{date}")}).load()
    trips = TableName("bronze", "trips")

    def code(location: str) -> str:
        place = config.Whereabouts(location, None, "mere.yaml", 1)
        return graph.placed({"bronze.trips": place}).models[trips].code

    assert code("s3://b/{date}.csv") == graph.models[trips].code
    assert code("s3://b/*.csv") != graph.models[trips].code


def test_variables_are_looked_up_when_something_is_fetched(
    project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project({TRIPS: "rest: {url: 'https://${HOST}/t', headers: {Authorization: 'Bearer ${TOKEN}'}}"})
    source = source_of(folder.model("bronze.trips"))
    assert "TOKEN" not in repr(source)
    monkeypatch.delenv("HOST", raising=False)
    monkeypatch.setenv("TOKEN", "s3cret")
    with pytest.raises(ConfigError, match=r"trips.yaml:1: `url` needs the environment variable `HOST`"):
        with_variables(source.feed, TRIPS, 1)
    monkeypatch.setenv("HOST", "api.example.com")
    feed = with_variables(source.feed, TRIPS, 1)
    assert isinstance(feed, Rest)
    assert (feed.url, feed.headers) == ("https://api.example.com/t", {"Authorization": "Bearer s3cret"})
    assert "s3cret" not in repr(feed)
    assert b"s3cret" not in b"".join(file.read_bytes() for file in folder.path.rglob("*") if file.is_file())


def test_a_profile_says_where_a_source_is(project: MakeProject) -> None:
    folder = project(
        {
            TRIPS: "files: data/{date}.csv.gz",
            "mere.yaml": """
            name: shop
            profiles:
              local: {}
              cloud:
                sources:
                  bronze.trips: {files: "s3://b/{date}.csv.gz", s3: {region: eu}}
            """,
        }
    )
    here, there = (config.load(folder.path / "mere.yaml", name) for name in ("local", "cloud"))
    assert folder.load().placed(here.sources) == folder.load()
    feed = source_of(folder.load().placed(there.sources).models[TableName("bronze", "trips")]).feed
    assert isinstance(feed, Files)
    assert feed.location == "s3://b/{date}.csv.gz"
    assert feed.s3 is not None


def test_a_profile_that_names_no_source(project: MakeProject) -> None:
    folder = project(
        {TRIPS: "files: a.csv", "mere.yaml": "name: a\nprofiles: {local: {sources: {bronze.trip: {files: b.csv}}}}"}
    )
    found = config.load(folder.path / "mere.yaml")
    with pytest.raises(ConfigError, match=r"mere.yaml:2: there is no source bronze.trip. Did you mean bronze.trips"):
        folder.load().placed(found.sources)

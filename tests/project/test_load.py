from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from mere.errors import UsageError
from mere.names import TableName
from mere.project.kinds import Kind
from mere.project.load import load
from mere.project.model import Csv, Input, OnChange, Sql
from mere.windows import Grain
from tests.project.conftest import MakeProject

ORDERS = TableName("silver", "orders")
DAILY = """
    -- kind: incremental
    -- time_column: order_date
    SELECT order_date, sum(amount) AS revenue
    FROM silver.orders
    WHERE order_date >= :start AND order_date < :end
    GROUP BY order_date
    """


def test_a_folder_without_models_is_an_empty_project(tmp_path: Path) -> None:
    graph = load(tmp_path)
    assert graph.models == {}
    assert graph.externals == ()


def test_a_sql_model_is_named_by_its_path_and_full_by_default(project: MakeProject) -> None:
    model = project({"models/silver/orders.sql": "SELECT id FROM bronze.orders"}).model("silver.orders")
    assert (model.kind, model.file) == (Kind.FULL, "models/silver/orders.sql")
    assert model.body == Sql("SELECT id FROM bronze.orders", 1)
    assert model.inputs == (Input(TableName("bronze", "orders"), 1),)


def test_a_header_holds_every_setting(project: MakeProject) -> None:
    model = project(
        {
            "models/gold/daily.sql": """
            -- kind: incremental
            -- description: What we earned
            -- columns: {order_date: the day, revenue: in euro}
            -- tags: [nightly, finance]
            -- time_column: order_date
            -- grain: month
            -- start: 2024-02
            -- unfinished: skip
            -- batch: 12
            -- key: order_date
            -- partition_by: [day(order_date), 'bucket(16, revenue)']
            -- sort_by: revenue
            -- properties: {write.parquet.compression-codec: zstd}
            -- audits:
            --   - unique: order_date
            -- off:
            --   select-star: the columns are documented upstream

            SELECT order_date, amount AS revenue
            FROM silver.orders WHERE order_date >= :start AND order_date < :end
            """
        }
    ).model("gold.daily")
    assert model.time is not None
    assert (model.time.column, model.time.grain, model.time.batch) == ("order_date", Grain.MONTH, 12)
    assert model.time.start == datetime(2024, 2, 1, tzinfo=UTC)
    assert not model.time.unfinished
    assert (model.description, model.tags, model.key) == ("What we earned", ("nightly", "finance"), ("order_date",))
    assert model.columns == {"order_date": "the day", "revenue": "in euro"}
    assert (model.partition_by, model.sort_by) == (("day(order_date)", "bucket(16, revenue)"), ("revenue",))
    assert model.properties == {"write.parquet.compression-codec": "zstd"}
    assert [str(audit) for audit in model.audits] == ["key(order_date)", "unique(order_date)"]
    assert [audit.line for audit in model.audits] == [10, 15]
    assert model.off == {"select-star": "the columns are documented upstream"}
    assert isinstance(model.body, Sql)
    assert model.body.line == 19


def test_models_come_in_dependency_order_and_the_rest_is_external(project: MakeProject) -> None:
    graph = project(
        {
            "models/a/last.sql": "SELECT * FROM b.middle JOIN raw.cities USING (id)",
            "models/b/middle.sql": "SELECT * FROM c.first",
            "models/c/first.sql": "SELECT * FROM bronze.x",
            "seeds/raw/cities.csv": "id,name\n1,Bern\n",
        }
    ).load()
    order = [str(name) for name in graph.models]
    assert order.index("c.first") < order.index("b.middle") < order.index("a.last")
    assert order.index("raw.cities") < order.index("a.last")
    assert graph.externals == (TableName("bronze", "x"),)
    assert graph.readers_of(TableName("bronze", "x")) == (TableName("c", "first"),)
    assert graph.inputs_of(TableName("a", "last")) == (TableName("b", "middle"), TableName("raw", "cities"))


def test_seeds_have_a_default_schema_and_settings_beside_them(project: MakeProject) -> None:
    folder = project(
        {
            "seeds/rates.csv": "currency;rate\nEUR;1.0\n",
            "seeds/rates.yaml": """
            delimiter: ";"
            types: {rate: 'decimal(10, 4)'}
            key: currency
            audits: [{not_null: currency}]
            """,
        }
    )
    model = folder.model("seeds.rates")
    assert isinstance(model.body, Csv)
    assert (model.kind, model.key, len(model.audits)) == (Kind.SEED, ("currency",), 2)
    assert (model.body.types, model.body.delimiter) == ({"rate": "decimal(10, 4)"}, ";")
    before = model.code
    folder.write({"seeds/rates.yaml": "delimiter: ';'\n"})
    assert folder.model("seeds.rates").code != before
    typed = folder.model("seeds.rates").code
    folder.write({"seeds/rates.csv": "currency;rate\nEUR;1.1\n"})
    assert folder.model("seeds.rates").code not in (before, typed)


@pytest.mark.parametrize(
    ("files", "where", "what"),
    [
        ({"seeds/a/b/c.csv": "x\n"}, "seeds/a/b/c.csv", "a seed's folder is its schema"),
        ({"seeds/Big.csv": "x\n"}, "seeds/Big.csv", "cannot be a seed's name"),
        ({"seeds/x.csv": ""}, "seeds/x.csv", "must name every column"),
        ({"seeds/x.csv": "a,A\n"}, "seeds/x.csv", "`a` appears twice"),
        ({"seeds/x.csv": "a\n", "seeds/x.yaml": "types: {b: int}"}, "seeds/x.yaml", "which x.csv does not have"),
        ({"seeds/x.csv": "a\n", "seeds/x.yaml": "kind: full"}, "seeds/x.yaml", "unknown key `kind`"),
        ({"seeds/x.yaml": "key: a"}, "seeds/x.yaml", "a seed that is not there"),
        ({"seeds/x.csv": "a\n", "seeds/x.yml": "key: a"}, "seeds/x.yml", "end in .yaml"),
        ({"models/orders.sql": "SELECT 1 AS x"}, "models/orders.sql", "a model's folder is its schema"),
        ({"models/a/b/c.sql": "SELECT 1 AS x"}, "models/a/b/c.sql", "a model's folder is its schema"),
        ({"models/Gold/c.sql": "SELECT 1 AS x"}, "models/Gold/c.sql", "cannot be a model's name"),
    ],
)
def test_files_in_the_wrong_place_or_shape(project: MakeProject, files: dict[str, str], where: str, what: str) -> None:
    problem = project(files).problem()
    assert problem.file == where
    assert what in problem.problem


@pytest.mark.parametrize(
    ("header", "line", "what", "remedy"),
    [
        ("-- kindd: full", 1, "unknown key `kindd`", "Did you mean `kind`?"),
        ("-- kind: ful", 1, "`kind` cannot be `ful`", "Did you mean `full`?"),
        ("-- kind: seed", 1, "`kind` cannot be `seed`", ""),
        ("-- kind: [full]", 1, "must be a single value", ""),
        ("-- kind: full\n-- grain: day", 2, "`grain` has no effect: the model is full", "kind: incremental"),
        ("-- kind: view\n-- sort_by: x", 2, "`sort_by` has no effect", ""),
        ("-- kind: incremental", 1, "needs a `time_column`", "time_column: order_date"),
        ("-- tags: {a: b}", 1, "`tags` must be a single value", ""),
        ("-- partition_by: day(x, y)", 1, "`partition_by` cannot be `day(x, y)`", "bucket(16, c)"),
        ("-- off: {select-stars: because}", 1, "no rule `select-stars`", "Did you mean `select-star`?"),
        ("-- off: {select-star: ''}", 1, "without a reason", ""),
        ("-- off: {select-star: }", 1, "without a reason", ""),
        ("-- now: minute", 1, "`now` cannot be `minute`", ""),
        ("-- now: day", 2, "the query does not use :now", "Remove it."),
        ("-- key: [", 1, "not valid YAML", ""),
        ("-- audits:\n--   - uniqe: id", 2, "there is no audit `uniqe`", "Did you mean `unique`?"),
        ("-- inputs: {bronze.x: {on_change: ignore}}", 1, "`inputs` has no effect", ""),
    ],
)
def test_headers_name_the_line_and_what_to_write(
    project: MakeProject, header: str, line: int, what: str, remedy: str
) -> None:
    problems = project({"models/gold/x.sql": f"{header}\nSELECT a FROM bronze.x"}).problems()
    found = [each for each in problems if what in each.problem]
    assert found, [str(each) for each in problems]
    assert (found[0].file, found[0].line) == ("models/gold/x.sql", line)
    assert remedy in (found[0].remedy or "")


def test_all_problems_are_told_at_once_in_the_order_of_files_and_lines(project: MakeProject) -> None:
    problems = project(
        {
            "models/gold/a.sql": "-- kind: fulll\n-- tagz: x\nSELECT x FROM orders",
            "models/gold/b.sql": "SELECT FROM WHERE",
            "models/gold/c.py": "def broken(:\n",
            "models/gold/d.sql": "SELECT {{ nothing }}",
            "models/gold/e.sql": "SELECT * FROM gold.f",
            "models/gold/f.sql": "SELECT * FROM gold.e",
            "seeds/x.csv": "",
        }
    ).problems()
    assert [(each.file, each.line) for each in problems] == [
        ("models/gold/a.sql", 1),
        ("models/gold/a.sql", 2),
        ("models/gold/a.sql", 3),
        ("models/gold/b.sql", 1),
        ("models/gold/c.py", 1),
        ("models/gold/d.sql", 1),
        ("models/gold/e.sql", 1),
        ("seeds/x.csv", 1),
    ]


def test_two_models_of_one_name_are_both_shown(project: MakeProject) -> None:
    problem = project({"models/raw/cities.sql": "SELECT 1 AS id", "seeds/raw/cities.csv": "id\n1\n"}).problem()
    assert str(problem).startswith("seeds/raw/cities.csv:1: there are two models raw.cities")
    assert "models/raw/cities.sql:1" in problem.problem


@pytest.mark.parametrize(
    ("files", "line", "what"),
    [
        ({"models/a/x.sql": "SELECT 1\nFROM a.x"}, 2, "a.x reads itself"),
        (
            {f"models/a/{name}.sql": f"SELECT 1 FROM a.{read}" for name, read in ("xz", "yx", "zy")},
            1,
            "a.x ← a.z ← a.y ← a.x",
        ),
    ],
)  # fmt: skip
def test_a_circle_is_shown_once_with_its_path(
    project: MakeProject, files: dict[str, str], line: int, what: str
) -> None:
    # Models behind a circle cannot be ordered either, but are not to blame.
    problem = project({**files, "models/b/behind.sql": "SELECT 1 FROM a.x"}).problem()
    assert what in problem.problem
    assert (problem.file, problem.line) == ("models/a/x.sql", line)


@pytest.mark.parametrize(
    ("sql", "line", "what"),
    [
        ("SELECT 1 AS x;\n\nSELECT 2 AS y FROM b.c", 3, "there are 2 statements"),
        ("CREATE TABLE a.b AS SELECT 1", 1, "CREATE is not allowed in a model"),
        ("DELETE FROM a.b", 1, "DELETE is not allowed in a model"),
        ("-- just: a header", 1, "unknown key"),
        ("\n", 1, "there is no query"),
        ("SELECT 1\nFROM orders", 2, "`orders` is a name without a schema"),
        ("SELECT 1\nFROM main.silver.orders", 2, "a ref is never written in a model"),
        ("SELECT 1 FROM parquet.`/data/x`", 1, "reads files"),
        ("SELECT 1\nFROM IDENTIFIER('a.b')", 2, "hides which table is read"),
        ("SELECT * FROM my_function(TABLE(a.b))", 1, "hides which table is read"),
        ("SELECT :stop FROM a.b", 1, "`:stop` is not something that mere fills in"),
        ("SELECT ? FROM a.b", 1, "is not something that mere fills in"),
        ("SELECT :now FROM a.b", 1, ":now needs a precision"),
        ("SELECT 1 FROM a.b WHERE d >= :start", 1, "known only to an incremental model"),
        ("-- kind: view\nSELECT :now AS t", 2, "a view cannot use :now"),
        ("SELECT 'open", 1, "not valid SQL"),
        ("WITH v AS (SELECT 1 AS a)\nSELEC v.a FROM v", 2, "no SELECT follows WITH, near `SELEC v.a FROM v`"),
        ("WITH v AS (SELECT 1 AS a)", 1, "no SELECT follows WITH"),
    ],
)
def test_a_model_is_one_select_over_two_part_names(project: MakeProject, sql: str, line: int, what: str) -> None:
    problems = project({"models/gold/x.sql": sql}).problems()
    assert [each.line for each in problems if what in each.problem] == [line], [str(each) for each in problems]


def test_a_parse_error_has_line_and_column(project: MakeProject) -> None:
    problem = project({"models/gold/x.sql": "-- kind: full\nSELECT a,\n  b FROM x.y WHERE ) = 1"}).problem()
    assert (problem.file, problem.line) == ("models/gold/x.sql", 3)
    assert problem.column == 20


def test_names_that_are_no_tables_are_not_inputs(project: MakeProject) -> None:
    model = project(
        {
            "models/gold/x.sql": """
            WITH orders AS (SELECT /*+ BROADCAST(c) */ * FROM bronze.orders o JOIN raw.cities c ON o.city = c.id)
            SELECT * FROM orders, range(5), (VALUES (1, 2)) AS v(a, b)
            LATERAL VIEW explode(items) i AS item
            WHERE id IN (SELECT id FROM silver.good) AND EXISTS (SELECT 1 FROM `silver`.`also`)
            -- a comment; with a semicolon
            ;
            -- and an end
            """
        }
    ).model("gold.x")
    assert sorted(str(each.table) for each in model.inputs) == [
        "bronze.orders", "raw.cities", "silver.also", "silver.good",
    ]  # fmt: skip
    assert isinstance(model.body, Sql)
    assert model.body.text.endswith("semicolon") or model.body.text.endswith("`also`)")
    assert ";\n" not in model.body.text


def test_values_alone_are_a_query(project: MakeProject) -> None:
    assert project({"models/gold/x.sql": "VALUES (1, 2), (3, 4)"}).model("gold.x").inputs == ()


def test_now_with_its_precision(project: MakeProject) -> None:
    model = project({"models/gold/x.sql": "-- now: week\nSELECT :now AS at"}).model("gold.x")
    assert model.now is Grain.WEEK


def test_an_append_model_takes_the_new_rows_of_its_only_input(project: MakeProject) -> None:
    model = project({"models/gold/x.sql": "-- kind: append\nSELECT * FROM bronze.events"}).model("gold.x")
    assert model.inputs[0].new_rows


def test_an_append_model_of_two_inputs_says_whose_new_rows(project: MakeProject) -> None:
    sql = "-- kind: append\n{}SELECT e.* FROM bronze.events e JOIN raw.kinds USING (id)"
    folder = project({"models/gold/x.sql": sql.format("")})
    problem = folder.problem()
    assert "new rows of exactly one input" in problem.problem
    assert "`inputs: {bronze.events: {new_rows: true}}`" in (problem.remedy or "")
    folder.write({"models/gold/x.sql": sql.format("-- inputs: {bronze.events: {new_rows: true}}\n")})
    assert [each.new_rows for each in folder.model("gold.x").inputs] == [True, False]


def test_an_input_without_a_time_must_say_what_its_change_means(project: MakeProject) -> None:
    sql = DAILY.replace("FROM silver.orders", "FROM silver.orders JOIN raw.cities c ON c.id = city")
    sql = sql.replace("order_date >=", "orders.order_date >=").replace("order_date < ", "orders.order_date < ")
    folder = project({"models/gold/x.sql": sql})
    problem = folder.problem()
    assert "which windows a change of raw.cities touches" in problem.problem
    assert "`inputs: {raw.cities: {on_change: rebuild}}`" in (problem.remedy or "")
    folder.write(
        {"models/gold/x.sql": sql.replace("-- time", "-- inputs: {raw.cities: {on_change: rebuild}}\n    -- time")}
    )
    assert folder.model("gold.x").inputs == (
        Input(ORDERS, 5, "order_date"),
        Input(TableName("raw", "cities"), 5, None, OnChange.REBUILD),
    )


def test_what_is_declared_goes_before_what_the_query_tells(project: MakeProject) -> None:
    sql = DAILY.replace("-- time", "-- inputs: {silver.orders: {time: booked_at}}\n    -- time")
    assert project({"models/gold/x.sql": sql}).model("gold.x").inputs[0].time == "booked_at"


LATEST = """
    -- kind: incremental
    -- time_column: at
    {}
    WITH x AS (SELECT id, at, row_number() OVER (PARTITION BY id ORDER BY at) AS rn FROM landing.events)
    SELECT id, at FROM x WHERE at >= :start AND at < :end AND rn = 1
    """


def test_what_mixes_rows_before_the_window_is_named(project: MakeProject) -> None:
    problem = project({"models/gold/x.sql": LATEST.format("-- description: the first of each")}).problem()
    assert "a change of landing.events touches: `ROW_NUMBER() OVER (PARTITION BY id" in problem.problem
    assert "mixes rows of several times before they are cut to the window" in problem.problem
    kept = LATEST.replace("PARTITION BY id", "PARTITION BY id, date(at)").format("-- description: a day's first")
    assert project({"models/gold/x.sql": kept}).model("gold.x").inputs[0].time == "at"


def test_the_time_column_is_a_copy_of_the_time_read_by_unless_it_is_declared(project: MakeProject) -> None:
    sql = DAILY.replace("SELECT order_date,", "SELECT date_add(order_date, days) AS order_date,")
    problem = project({"models/gold/x.sql": sql}).problem()
    assert (problem.line, "the time_column `order_date` does not say" in problem.problem) == (3, True)
    assert "`inputs: {silver.orders: {time: order_date}}`" in (problem.remedy or "")
    sql = sql.replace("-- time", "-- inputs: {silver.orders: {time: order_date}}\n    -- time")
    assert project({"models/gold/x.sql": sql}).model("gold.x").inputs[0].time == "order_date"


def test_hours_cannot_be_kept_by_date(project: MakeProject) -> None:
    sql = DAILY.replace("-- time", "-- grain: hour\n    -- time").replace(":start", "CAST(:start AS date)")
    problem = project({"models/gold/x.sql": sql}).problem()
    assert (problem.line, "cuts times to more than one hour" in problem.problem) == (6, True)


@pytest.mark.parametrize(
    "condition",
    [
        "order_date >= :start - INTERVAL 2 DAYS AND order_date < :end",
        "order_date >= date_sub(:start, 2) AND order_date < :end",
        "order_date >= add_months(:start, -1) AND order_date < :end",
        "order_date + INTERVAL 2 DAYS >= :start AND order_date < :end",
        "datediff(:end, order_date) < 3 AND order_date < :end AND :start = :start",
    ],
)
def test_a_look_back_cannot_be_declared_as_a_time(project: MakeProject, condition: str) -> None:
    sql = DAILY.replace("order_date >= :start AND order_date < :end", condition)
    undeclared = project({"models/gold/x.sql": sql}).problem()
    assert "reads rows of other windows" in undeclared.problem
    declared = sql.replace("-- time", "-- inputs: {silver.orders: {time: order_date}}\n    -- time")
    problem = project({"models/gold/x.sql": declared}).problem()
    assert problem.line == 2
    assert "a change of silver.orders would be missed there" in problem.problem
    assert "on_change: rebuild" in (problem.remedy or "")


def test_a_look_back_on_one_input_says_nothing_of_another(project: MakeProject) -> None:
    model = project(
        {
            "models/gold/x.sql": """
            -- kind: incremental
            -- time_column: at
            -- inputs: {a.b: {time: at}, a.c: {on_change: rebuild}}
            SELECT b.at, c.x FROM a.b JOIN a.c ON c.id = b.id AND c.at >= :start - INTERVAL 2 DAYS AND c.at < :end
            WHERE b.at >= :start AND b.at < :end AND b.paid_at < :end + INTERVAL 2 DAYS
            """
        }
    ).model("gold.x")
    assert [each.time for each in model.inputs] == ["at", None]


def test_the_new_rows_of_a_view_are_not_known(project: MakeProject) -> None:
    view = {"models/silver/v.sql": "-- kind: view\nSELECT id FROM bronze.events"}
    problem = project({**view, "models/gold/x.sql": "-- kind: append\nSELECT id\nFROM silver.v"}).problem()
    assert "silver.v is a view: which of its rows are new cannot be known" in problem.problem
    assert (problem.file, problem.line) == ("models/gold/x.sql", 3)


def test_an_input_that_is_not_read_cannot_be_declared(project: MakeProject) -> None:
    sql = DAILY.replace("-- time", "-- inputs: {silver.order: {time: order_date}}\n    -- time")
    problem = project({"models/gold/x.sql": sql}).problem()
    assert "`silver.order` is not read by the query. Did you mean silver.orders?" in problem.problem
    assert problem.line == 2


def test_an_incremental_model_needs_a_window(project: MakeProject) -> None:
    header = "-- kind: incremental\n-- time_column: d\n"
    folder = project({"models/gold/x.sql": f"{header}SELECT d FROM a.b WHERE d >= :start"})
    assert any("must use :end" in each.problem for each in folder.problems())
    header += "-- inputs: {a.b: {on_change: ignore}}\n"
    folder.write({"models/gold/x.sql": f"{header}SELECT :start AS d, :end AS e FROM a.b"})
    assert "needs an input that is read in windows" in folder.problem().problem


def test_unknown_variables_on_the_command_line_are_refused(project: MakeProject) -> None:
    folder = project({"mere.yaml": "name: shop\nvars: {currency: EUR}"})
    with pytest.raises(UsageError, match="no variable curency"):
        folder.load(curency="USD")


def test_a_file_that_is_not_text_is_told(project: MakeProject) -> None:
    folder = project({"models/gold/x.sql": ""})
    (folder.path / "models/gold/x.sql").write_bytes(b"SELECT '\xff'")
    assert str(folder.problem()) == "models/gold/x.sql:1:9: not UTF-8 text\nSave it as UTF-8."

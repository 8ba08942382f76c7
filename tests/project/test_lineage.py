"""Lineage across the models of a project."""

from __future__ import annotations

from pathlib import Path

from mere.lake.iceberg.properties import LINEAGE
from mere.lake.lake import Lake
from mere.names import TableName
from mere.project.lineage import ColumnName, Edge, EdgeKind, Lineage, reached, readers_of
from mere.project.load import load
from mere.project.schemas import KnownPlans, KnownSchemas, code_of, with_views
from mere.sql.lineage.spark_plan import Kept, PlanLineage
from tests.lake import iceberg_tables
from tests.lake.query.test_views import view
from tests.project.conftest import MakeProject, ProjectFolder

SHOP = {
    "seeds/raw/orders.csv": "id,amount,city,status,at\n1,20,Bern,paid,2024-01-01\n",
    "models/silver/orders.sql": """
        SELECT id, amount, City AS town, at
        FROM raw.orders
        WHERE status = 'paid'
        """,
    "models/silver/towns.sql": """
        -- kind: view
        SELECT DISTINCT town
        FROM silver.orders
        """,
    "models/gold/revenue.sql": """
        WITH per_town AS (
            SELECT town, sum(amount) AS revenue
            FROM silver.orders
            GROUP BY town
        )
        SELECT town, revenue
        FROM per_town
        LEFT SEMI JOIN silver.towns USING (town)
        """,
    "models/gold/copy.sql": "SELECT * FROM gold.revenue\n",
    "models/gold/scores.py": """
        from mere import model, table

        @model("gold.scores")
        def scores(orders=table("silver.orders")):
            return orders
        """,
}


def lineage(project: ProjectFolder) -> Lineage:
    graph = project.load()
    return Lineage(graph, KnownSchemas(graph, project.path, None))


def name(text: str) -> ColumnName:
    schema, table, *column = text.split(".")
    return ColumnName(TableName(schema, table), *column)


def shown(edges: list[Edge]) -> list[str]:
    return [f"{each.source} → {each.target} {each.kind}" for each in edges]


def test_a_column_is_followed_up_to_the_seed_through_models_and_views(project: MakeProject) -> None:
    found = lineage(project(SHOP))
    assert shown(reached([name("gold.copy.revenue")], found.up)) == [
        "gold.revenue.revenue → gold.copy.revenue value",
        "gold.copy → gold.copy.revenue condition",
        "silver.orders.amount → gold.revenue.revenue value",
        "gold.revenue → gold.revenue.revenue condition",
        "gold.revenue → gold.copy condition",
        "raw.orders.amount → silver.orders.amount value",
        "silver.orders → silver.orders.amount condition",
        "silver.orders → gold.revenue condition",
        "silver.orders.town → gold.revenue condition",
        "silver.towns → gold.revenue condition",
        "silver.towns.town → gold.revenue condition",
        "raw.orders → silver.orders condition",
        "raw.orders.status → silver.orders condition",
        "raw.orders.city → silver.orders.town value",
        "silver.orders → silver.orders.town condition",
        "silver.orders → silver.towns condition",
        "silver.orders.town → silver.towns condition",
        "silver.orders.town → silver.towns.town value",
        "silver.towns → silver.towns.town condition",
    ]


def test_an_edge_knows_the_file_the_line_and_the_expression(project: MakeProject) -> None:
    found = lineage(project(SHOP))
    sums, status = found.up(name("gold.revenue.revenue"))[0], found.up(name("silver.orders"))[1]
    assert (sums.file, sums.line, sums.sql) == ("models/gold/revenue.sql", 2, "SUM(amount) AS revenue")
    assert (status.line, status.clause, status.sql) == (3, "WHERE", "status = 'paid'")
    renamed = found.up(name("silver.orders.town"))[0]
    assert (str(renamed.source), renamed.line, renamed.sql) == ("raw.orders.city", 1, "City AS town")


def test_down_is_up_seen_from_the_other_side(project: MakeProject) -> None:
    found = lineage(project(SHOP))
    tables = [*found.graph.models]
    names = [ColumnName(each, column) for each in tables for column in (*(found.columns(each) or ()), None)]
    up = {(each.source, each.target, each.kind) for one in names for each in found.up(one)}
    down = {(each.source, each.target, each.kind) for one in names for each in found.down(one)}
    # That a table's columns depend on its rows is told upwards only: downwards the rows stand for them.
    assert down == {each for each in up if each[0].table != each[1].table}
    assert (name("raw.orders.status"), name("silver.orders"), EdgeKind.CONDITION) in down


def test_a_pyspark_model_may_use_every_column_of_what_it_reads(project: MakeProject) -> None:
    found = lineage(project(SHOP))
    edges = found.down(name("silver.orders.at"))
    assert shown(edges) == ["silver.orders.at → gold.scores table"]
    assert [each.certain for each in edges] == [False]
    assert {str(each.source) for each in found.up(name("gold.scores"))} == {
        *("silver.orders", "silver.orders.id", "silver.orders.amount", "silver.orders.town", "silver.orders.at"),
    }


def test_the_columns_of_a_pyspark_model_are_those_of_its_contract(project: MakeProject) -> None:
    scores = SHOP["models/gold/scores.py"].replace(
        '"gold.scores"', '"gold.scores", contract={"id": "bigint", "score": "double"}'
    )
    found = lineage(project(SHOP | {"models/gold/scores.py": scores}))
    assert found.columns(TableName("gold", "scores")) == ("id", "score")
    assert shown(found.up(name("gold.scores.score"))) == ["gold.scores → gold.scores.score table"]


def test_a_plan_tells_what_a_pyspark_model_does(project: MakeProject) -> None:
    scores = SHOP["models/gold/scores.py"].replace(
        '"gold.scores"', '"gold.scores", audits=[{"assert": "score > 0", "quarantine": True}]'
    )
    graph = project(SHOP | {"models/gold/scores.py": scores}).load()
    amount, town, any_ = (name(f"silver.orders.{each}") for each in ("amount", "town", "*"))
    plan = PlanLineage({"score": frozenset({amount}), "odd": frozenset({any_})}, frozenset({town}))
    found = Lineage(graph, {}, {TableName("gold", "scores"): plan})
    assert shown(found.down(amount))[:2] == [
        "silver.orders.amount → gold.scores.score value",
        "silver.orders.amount → gold.scores condition",  # of what is put aside
    ]
    assert "silver.orders.town → gold.scores condition" in shown(found.down(town))
    assert [(str(each.source), each.certain) for each in found.up(name("gold.scores.odd"))] == [
        *((f"silver.orders.{each}", False) for each in ("id", "amount", "town", "at")),
        ("gold.scores", True),
    ]
    readers = readers_of(graph, {}, TableName("silver", "orders"), "id", {TableName("gold", "scores"): plan})
    assert [(str(each), each.certain) for each in readers] == [("gold.scores.odd", False)]


def test_a_plan_is_of_the_code_of_today_or_not_known(project: MakeProject, tmp_path: Path) -> None:
    graph = project(SHOP).load()
    scores = graph.models[TableName("gold", "scores")]
    plan = PlanLineage({"id": frozenset({name("silver.orders.id")})}, frozenset())
    with Lake.create(tmp_path / "lake") as lake:
        iceberg_tables.create(lake, "gold.scores")
        lake.branch("old")
        lake.branch("unknown")
        today = code_of(scores)
        for ref, kept in {"main": Kept(today, plan), "old": Kept("other", plan), "unknown": Kept(today)}.items():
            lake.set_properties({scores.name: {LINEAGE: kept.to_json()}}, on=ref)
        assert dict(KnownPlans(graph, lake.at("main"))) == {scores.name: plan}
        assert dict(KnownPlans(graph, lake.at("old"))) == {}
        assert dict(KnownPlans(graph, lake.at("unknown"))) == {}
    assert dict(KnownPlans(graph, None)) == {}


def broken(project: ProjectFolder, table: str, column: str) -> list[str]:
    graph = project.load()
    found = readers_of(graph, KnownSchemas(graph, project.path, None), TableName.parse(table), column)
    return [f"{each}{'' if each.certain else '?'}" for each in found]


def test_readers_are_all_that_breaks_without_a_column(project: MakeProject) -> None:
    shop = project(SHOP)
    assert broken(shop, "silver.orders", "amount") == [
        "gold.scores?",
        "gold.revenue.revenue",
        "gold.copy.revenue",
    ]
    assert broken(shop, "silver.orders", "TOWN") == ["gold.scores?", "silver.towns", "gold.revenue", "gold.copy"]
    assert broken(shop, "gold.revenue", "revenue") == ["gold.copy.revenue"]
    assert broken(shop, "gold.copy", "revenue") == []


def test_a_model_breaks_that_names_a_column_and_makes_nothing_of_it(project: MakeProject) -> None:
    unused = """
        WITH unused AS (SELECT amount FROM silver.orders)
        SELECT id FROM silver.orders WHERE EXISTS (SELECT town FROM silver.towns)
        """
    shop = project(SHOP | {"models/gold/unused.sql": unused})
    assert "gold.unused" in broken(shop, "silver.orders", "amount")
    assert "gold.unused" in broken(shop, "silver.towns", "town")
    assert "gold.unused" not in broken(shop, "silver.orders", "at")


def test_a_star_over_a_table_that_is_not_known_passes_every_name(project: MakeProject) -> None:
    found = lineage(project({"models/silver/all.sql": "SELECT *, a + b AS ab FROM bronze.outside WHERE c > 0"}))
    assert found.columns(TableName("silver", "all")) is None
    assert [str(each.source) for each in found.up(name("silver.all.x"))] == ["bronze.outside.x", "silver.all"]
    assert shown(found.down(name("bronze.outside.x"))) == ["bronze.outside.x → silver.all.x value"]
    assert shown(found.down(name("bronze.outside.c"))) == [
        "bronze.outside.c → silver.all condition",
        "bronze.outside.c → silver.all.c value",
    ]
    assert shown(found.down(name("bronze.outside.a")))[0] == "bronze.outside.a → silver.all.ab value"


def test_settings_that_choose_rows_are_conditions(project: MakeProject) -> None:
    found = lineage(
        project(
            {
                "seeds/raw/orders.csv": "id,amount,city,seen\n1,20,Bern,2024-01-01\n",
                "seeds/raw/cities.csv": "name\nBern\n",
                "models/silver/latest.sql": """
                    -- kind: merge
                    -- key: id
                    -- latest_by: seen
                    -- audits:
                    --   - assert: amount > 0
                    --     quarantine: true
                    --   - relationships: {column: city, to: raw.cities, key: name}
                    --     quarantine: true
                    SELECT id, amount, city, seen FROM raw.orders
                    """,
                "models/silver/history.sql": """
                    -- kind: scd2
                    -- key: id
                    -- updated_at: seen
                    SELECT id, amount, seen FROM raw.orders
                    """,
            }
        )
    )
    latest = {str(each.source): each.clause for each in found.up(name("silver.latest"))}
    assert latest == {
        "raw.orders": "FROM",
        "raw.orders.seen": "LATEST BY",
        "raw.orders.id": "LATEST BY",
        "raw.orders.amount": "QUARANTINE",
        "raw.orders.city": "QUARANTINE",
        "raw.cities.name": "QUARANTINE",
        "raw.cities": "QUARANTINE",
    }
    assert found.columns(TableName("silver", "history"))[-3:] == ("valid_from", "valid_to", "is_current")  # type: ignore[index]
    assert shown(found.up(name("silver.history.valid_to")))[:1] == ["raw.orders.seen → silver.history.valid_to value"]
    assert {str(each.source) for each in found.up(name("silver.history"))} == {
        *("raw.orders", "raw.orders.id", "raw.orders.seen"),
    }


def test_tables_and_views_of_the_lake_are_known_by_their_metadata(project: MakeProject, tmp_path: Path) -> None:
    shop = project({"models/gold/totals.sql": "SELECT * FROM gold.renamed"})
    with Lake.create(tmp_path / "lake") as lake:
        iceberg_tables.create(lake, "gold.t")
        view(lake, "gold.renamed", "SELECT id, id + 1 FROM T WHERE id > 0", first="long", second="long")
        graph, tables = shop.load(), lake.at("main")
        found = Lineage(with_views(graph, tables), KnownSchemas(graph, shop.path, tables))
        assert found.columns(TableName("gold", "totals")) == ("first", "second")
        assert [str(each.source) for each in reached([name("gold.totals.second")], found.up)] == [
            *("gold.renamed.second", "gold.totals", "gold.t.id", "gold.renamed", "gold.renamed", "gold.t", "gold.t.id"),
        ]


def test_a_hundred_models_one_after_the_other(project: MakeProject) -> None:
    models = {f"models/m/m{at}.sql": f"SELECT * FROM m.m{at - 1} WHERE a{at} > 0" for at in range(1, 100)}
    columns = ",".join(f"a{at}" for at in range(100))
    shop = project({"seeds/m/m0.csv": f"{columns}\n{columns}\n", **models})
    found = lineage(shop)
    edges = reached([name("m.m99.a0")], found.up)
    assert {str(each.source) for each in edges} >= {*(f"m.m0.a{at}" for at in range(100))}
    assert len(load(shop.path).models) == 100

"""mere lineage, for people, for machines, and as a picture."""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import dedent
from xml.etree import ElementTree

import pytest

from mere.lake.lake import Lake
from tests.cli.test_cli import Shell
from tests.lake import iceberg_tables

FILES = {
    "seeds/raw/orders.csv": "id,amount,city,status\n1,20,Bern,paid\n",
    "models/silver/orders.sql": """
        SELECT id, amount, city AS town
        FROM raw.orders
        WHERE status = 'paid'
        """,
    "models/gold/revenue.sql": """
        SELECT town, sum(amount) AS revenue
        FROM silver.orders
        GROUP BY town
        """,
    "models/gold/scores.py": """
        from mere import model, table

        @model("gold.scores")
        def scores(revenue=table("gold.revenue")):
            return revenue
        """,
}


@pytest.fixture
def mere(tmp_path: Path) -> Shell:
    Shell(tmp_path)("init", "shop")
    for name, text in FILES.items():
        file = tmp_path / "shop" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
    return Shell(tmp_path / "shop")


def tree(text: str) -> str:
    return dedent(text).lstrip("\n")


def test_a_column_is_shown_with_all_that_it_is_made_of_and_goes_into(mere: Shell) -> None:
    assert mere("lineage", "gold.revenue.revenue").stdout == tree("""
        gold.revenue.revenue is made of
        ├── silver.orders.amount  SUM(amount) AS revenue  models/gold/revenue.sql:1
        │   └── raw.orders.amount  models/silver/orders.sql:1
        └── rows of gold.revenue
            ├── rows of silver.orders  models/gold/revenue.sql:2
            │   └── raw.orders.status  WHERE status = 'paid'  models/silver/orders.sql:3
            └── silver.orders.town  GROUP BY town  models/gold/revenue.sql:3
                └── raw.orders.city  city AS town  models/silver/orders.sql:1
        gold.revenue.revenue goes into
        └── rows of gold.scores  by table  models/gold/scores.py:4
        """)


def test_a_table_is_shown_column_by_column(mere: Shell) -> None:
    assert mere("lineage", "silver.orders", "--up").stdout == tree("""
        silver.orders is made of
        ├── silver.orders.id
        │   └── raw.orders.id  models/silver/orders.sql:1
        ├── silver.orders.amount
        │   └── raw.orders.amount  models/silver/orders.sql:1
        ├── silver.orders.town
        │   └── raw.orders.city  city AS town  models/silver/orders.sql:1
        └── rows of silver.orders
            └── raw.orders.status  WHERE status = 'paid'  models/silver/orders.sql:3
        """)
    assert mere("lineage", "raw.orders", "--up").stdout == "raw.orders is made of nothing in this project\n"


def test_what_was_shown_above_is_not_shown_again(mere: Shell) -> None:
    shown = mere("lineage", "raw.orders.city", "--down").stdout
    assert shown == tree("""
        raw.orders.city goes into
        └── silver.orders.town  city AS town  models/silver/orders.sql:1
            ├── gold.revenue.town  models/gold/revenue.sql:1
            │   └── rows of gold.scores  by table  models/gold/scores.py:4
            └── rows of gold.revenue  GROUP BY town  models/gold/revenue.sql:3
                └── rows of gold.scores  by table  models/gold/scores.py:4
        """)
    (mere.folder / "models/gold/twice.sql").write_text("SELECT town, town || '!' AS loud FROM gold.revenue\n")
    assert "silver.orders.town …" in mere("lineage", "gold.twice", "--up").stdout


def test_machines_get_nodes_and_edges(mere: Shell) -> None:
    found = mere.json("lineage", "gold.revenue.revenue", "--up")
    assert found["start"] == ["gold.revenue.revenue"]
    nodes = {each["id"]: each for each in found["nodes"]}
    assert nodes["gold.revenue"]["column"] is None
    assert nodes["raw.orders.amount"] == {
        "id": "raw.orders.amount",
        "table": "raw.orders",
        "column": "amount",
        "kind": "seed",
        "file": "seeds/raw/orders.csv",
    }
    assert found["edges"][0] == {
        "source": "silver.orders.amount",
        "target": "gold.revenue.revenue",
        "kind": "value",
        "certain": True,
        "file": "models/gold/revenue.sql",
        "line": 1,
        "clause": None,
        "sql": "SUM(amount) AS revenue",
    }
    assert {each["source"] for each in found["edges"]} | {each["target"] for each in found["edges"]} == nodes.keys()


def test_a_flowchart_for_markdown(mere: Shell) -> None:
    assert mere("lineage", "silver.orders.town", "--mermaid", "--up").stdout == tree("""
        flowchart LR
          subgraph t0["silver.orders"]
            n0["rows"]
            n1["town"]
          end
          subgraph t1["raw.orders"]
            n2["rows"]
            n3["city"]
            n4["status"]
          end
          n3 --> n1
          n2 -.-> n0
          n4 -.-> n0
          style n1 stroke-width:3px
        """)


def test_a_page_that_needs_nothing_else(mere: Shell) -> None:
    (mere.folder / "models/gold/odd.sql").write_text('SELECT town AS `a<b>&"c"</script>` FROM gold.revenue\n')
    text = mere("lineage", "raw.orders.city", "--html").stdout
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert text.count("</script>") == 1
    assert "<title>raw.orders.city: lineage</title>" in text
    assert "<b>raw.orders.city</b>" in text
    drawing = re.search(r'<svg id="drawing".*?</svg>', text, re.DOTALL)
    assert drawing is not None
    svg = ElementTree.fromstring(drawing[0])
    texts = [each.text for each in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[:2] == ["raw.orders", "city"]
    assert 'a<b>&"c"</script>' in texts
    ids = [each.get("id") for each in svg.iter() if each.get("id")]
    edges = re.search(r"const edges = (.*?), rows", text)
    assert edges is not None
    assert ids.count("e0") == 1
    assert len([each for each in ids if str(each).startswith("e")]) == edges[1].count("[") - 1


def test_without_a_name_all_tables_are_shown_schema_by_schema(mere: Shell) -> None:
    assert mere("lineage").stdout == tree("""
        raw
        └── orders  seed
        silver
        └── orders  ← raw.orders
        gold
        ├── revenue  ← silver.orders
        └── scores   ← gold.revenue

        4 tables in 3 schemas, 3 edges
        """)
    assert mere("lineage", "--mermaid").stdout == tree("""
        flowchart LR
          subgraph t0["raw"]
            n0["orders"]
          end
          subgraph t1["silver"]
            n1["orders"]
          end
          subgraph t2["gold"]
            n2["revenue"]
            n3["scores"]
          end
          n0 --> n1
          n1 --> n2
          n2 --> n3
        """)
    found = json.loads(mere("lineage", "--json").stdout)
    assert [each["id"] for each in found["nodes"]] == ["raw.orders", "silver.orders", "gold.revenue", "gold.scores"]
    assert [(each["source"], each["target"], each["line"]) for each in found["edges"]] == [
        ("raw.orders", "silver.orders", 2),
        ("silver.orders", "gold.revenue", 2),
        ("gold.revenue", "gold.scores", 4),
    ]


def test_a_part_of_the_project_is_chosen_as_for_other_commands(mere: Shell) -> None:
    (mere.folder / "models/gold/towns.sql").write_text(
        "-- owner: ann\n-- tags: [finance, monthly]\nSELECT DISTINCT town FROM silver.orders\n"
    )
    part = tree("""
        silver
        └── orders  incremental
        gold
        └── towns  ← silver.orders

        2 tables in 2 schemas, 1 edge
        """).replace("incremental", "full")
    for name in ("tag:finance", "owner:ann", "gold.tow*"):
        assert mere("lineage", name).stdout == part
    assert "4 edges" in mere("lineage", "raw.orders+").stdout
    assert "No model matches tag:finanz. Did you mean tag:finance?" in mere("lineage", "tag:finanz", exit_code=2).stderr
    assert "--up goes with one table or column." in mere("lineage", "--up", exit_code=2).stderr


def test_a_quarantine_is_drawn_behind_the_model_to_which_it_belongs(mere: Shell) -> None:
    (mere.folder / "models/silver/orders.sql").write_text(
        "-- audits: [{not_null: id, quarantine: true}]\nSELECT id, amount, city AS town FROM raw.orders\n"
    )
    (mere.folder / "models/gold/bad.sql").write_text("SELECT count(*) AS rows FROM silver.orders__quarantine\n")
    shown = mere("lineage").stdout
    assert "orders__quarantine  ← silver.orders\n" in shown
    assert "bad      ← silver.orders__quarantine\n" in shown


def test_the_page_of_a_project_has_a_box_for_each_step_of_a_schema(mere: Shell) -> None:
    text = mere("lineage", "--html").stdout
    svg = ElementTree.fromstring(re.search(r'<svg id="drawing".*?</svg>', text, re.DOTALL)[0])  # type: ignore[index]
    texts = [each.text for each in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["raw", "orders", "silver", "orders", "gold", "revenue", "gold", "scores"]
    assert len([each for each in svg.iter() if str(each.get("id")).startswith("e")]) == 3
    assert "raw.orders → silver.orders\nmodels/silver/orders.sql:2" in "".join(svg.itertext())


def test_wrong_names_are_refused_with_the_nearest(mere: Shell) -> None:
    for wrong, message in {
        "gold.revenu": "No model makes or reads gold.revenu, and it is not in the lake. Did you mean gold.rev",
        "gold.revenu.town": "Did you mean gold.revenue?",
        "gold.revenue.revenu": "gold.revenue has no column revenu. Did you mean revenue?",
        "nothing": "No model makes or reads nothing",
    }.items():
        assert message in mere("lineage", wrong, exit_code=2).stderr
    assert "Leave out one of them." in mere("lineage", "gold.revenue", "--json", "--html", exit_code=2).stderr


def test_names_are_found_in_any_case(mere: Shell) -> None:
    assert mere.json("lineage", "gold.revenue.REVENUE")["start"] == ["gold.revenue.revenue"]


def test_columns_of_outside_tables_are_those_of_the_lake_at_a_ref(mere: Shell) -> None:
    (mere.folder / "models/gold/all.sql").write_text("SELECT * FROM bronze.t\n")
    with Lake.open(mere.folder / "lake") as lake:
        lake.branch("dev")
        iceberg_tables.create(lake, "bronze.t", ref="dev")
    assert mere.json("lineage", "gold.all", "--at", "dev")["start"] == [
        *("gold.all.id", "gold.all.name", "gold.all.day", "gold.all"),
    ]
    assert mere.json("lineage", "gold.all")["start"] == ["gold.all"]
    assert "bronze.t.anything" in mere("lineage", "gold.all.anything").stdout


def test_a_project_can_be_looked_at_without_its_lake(mere: Shell) -> None:
    (mere.folder / "lake").rename(mere.folder / "elsewhere")
    done = mere("lineage", "gold.revenue.revenue")
    assert "raw.orders.amount" in done.stdout
    assert "without the lake" in done.stderr
    (mere.folder / "mere.yaml").unlink()
    assert "There is no mere.yaml" in mere("lineage", "gold.revenue", exit_code=1).stderr

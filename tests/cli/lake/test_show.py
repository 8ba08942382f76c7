"""mere show and mere diff, for people and for machines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.types import StringType

from mere.lake.lake import Lake
from tests.cli.test_cli import Shell
from tests.lake import iceberg_tables


@pytest.fixture
def mere(tmp_path: Path) -> Shell:
    Shell(tmp_path)("init", "shop")
    return Shell(tmp_path / "shop")


@pytest.fixture
def lake(mere: Shell) -> Iterator[Lake]:
    """`gold.t` with rows 1 to 3 on main; on dev row 1 is gone, 4 was added, and so was a column."""
    with Lake.open(mere.folder / "lake") as lake:
        iceberg_tables.create(lake, "gold.t")
        iceberg_tables.append(lake, "gold.t", 1, 2, 3)
        lake.branch("dev")
        iceberg_tables.append(lake, "gold.t", 4, ref="dev")
        iceberg_tables.delete(lake, "gold.t", "id = 1", ref="dev")
        with lake.pyiceberg("dev").load_table("gold.t").update_schema() as update:
            update.add_column("note", StringType(), doc="free text")
        yield lake


def test_show_prints_a_table(mere: Shell, lake: Lake) -> None:
    shown = mere("show", "gold.t", "--at", "dev").stdout
    assert shown.startswith("table gold.t\n  rows            3\n")
    assert "in 2 data files\n" in shown
    assert "  note  string  yes   free text\n" in shown
    assert "  gc.enabled = false\n" in shown
    assert "overwrite  +2 -3 rows, +1 -1 files" in shown
    assert "… and 2 older: -n shows more" in mere("show", "gold.t", "--at", "dev", "-n", "1").stdout
    assert "Did you mean gold.t?" in mere("show", "gold.tt", exit_code=1).stderr


def test_show_prints_json(mere: Shell, lake: Lake) -> None:
    found = mere.json("show", "gold.t")
    assert (found["rows"], found["kind"], found["data_files"], found["snapshot_count"]) == (3, "table", 1, 1)
    assert found["columns"][0] == {"id": 1, "name": "id", "type": "long", "required": False, "comment": None}
    assert found["snapshots"][0]["growth"]["rows_added"] == 3


def test_show_history_has_a_line_for_each_commit(mere: Shell, lake: Lake) -> None:
    lines = mere("show", "gold.t", "--history", "--at", "dev").stdout.splitlines()
    assert lines[0].split() == ["commit", "time", "author", "change", "rows", "size", "schema", "message"]
    assert [("changed  altered" in line, "created" in line) for line in (lines[1], lines[-1])] == [
        (True, False),
        (False, True),
    ]
    found = mere.json("show", "gold.t", "--history", "-n", "1")
    assert [(each["verb"], each["rows"], each["schema_changed"]) for each in found] == [("changed", 3, False)]
    assert found[0]["commit"]["id"] == lake.at().commit.id


def test_diff_prints_what_leads_from_one_ref_to_another(mere: Shell, lake: Lake) -> None:
    shown = mere("diff", "main", "dev").stdout
    assert shown == mere("diff", "dev").stdout
    assert shown.startswith("changed gold.t  +3 -3 rows, +2 -1 files, +")
    assert "    column note added: string\n" in shown
    assert "main and main are equal" in mere("diff", "main", "main").stdout


def test_diff_prints_json(mere: Shell, lake: Lake) -> None:
    found = mere.json("diff", "dev")
    assert found["from"] == {"ref": "main", "commit": lake.at("main").commit.id}
    (table,) = found["tables"]
    assert (table["table"], table["verb"], table["rows_added"], table["rows_removed"]) == ("gold.t", "changed", 3, 3)
    assert table["columns"] == [{"what": "added", "column": "note", "old": None, "new": "string"}]


def test_diff_exits_with_1_only_if_asked_to(mere: Shell, lake: Lake) -> None:
    mere("diff", "dev")
    mere("diff", "dev", "--exit-code", exit_code=1)
    mere("diff", "main", "main", "--exit-code")


def test_diff_wants_one_ref_or_two(mere: Shell, lake: Lake) -> None:
    assert "Name two refs: mere diff main main" in mere("diff", "main", exit_code=2).stderr
    mere("diff", exit_code=2)
    mere("diff", "main", "dev", "main", exit_code=2)
    assert "no branch, tag or commit" in mere("diff", "main", "nothing", exit_code=1).stderr


def test_diff_compares_rows(mere: Shell, lake: Lake) -> None:
    shown = mere("diff", "dev", "--rows", "--key", "id").stdout
    assert "    rows compared by id: +1 -1 ~0  (read touched files: 1 of 1 of the old, 2 of 2 of the new)\n" in shown
    assert "    not compared, only in the new: note\n" in shown
    assert "    + id 4, name plain, day 2026-11-02\n" in shown
    assert "    - id 1, name a:b/c, day 2026-11-02\n" in shown
    assert (
        "rows compared as a whole: +1 -1  (read" in mere("diff", "dev", "--rows", "--no-key", "--memory", "1GB").stdout
    )
    assert "+ id" not in mere("diff", "dev", "--rows", "--limit", "0").stdout
    assert "not unique" in mere("diff", "dev", "--rows", "--key", "name", exit_code=1).stderr


def test_diff_counts_companions_and_shows_their_rows_when_they_are_named(mere: Shell, lake: Lake) -> None:
    for name in ("gold.t__loads", "gold.t__quarantine", "gold.alone__loads"):
        iceberg_tables.create(lake, name)
    lake.branch("later")
    for name in ("gold.t", "gold.t__loads", "gold.t__quarantine", "gold.alone__loads"):
        iceberg_tables.append(lake, name, 9, ref="later")
    shown = mere("diff", "later", "--rows").stdout
    assert shown.count("rows compared") == 2
    assert "and 2 companions of these tables: gold.t__loads, gold.t__quarantine; to see their rows, name them" in shown
    assert "changed gold.t__loads" not in shown
    assert "changed gold.alone__loads" in shown, "it belongs to nothing"
    named = mere("diff", "later", "--rows", "--table", "gold.t__loads").stdout
    assert "changed gold.t__loads  +1 row" in named
    assert "and 1 companion of these tables: gold.t__quarantine" in named
    assert "changed gold.t__loads" in mere("diff", "later").stdout
    assert [each["table"] for each in mere.json("diff", "later", "--rows")["rows"]] == ["gold.alone__loads", "gold.t"]


def test_diff_prints_rows_as_json(mere: Shell, lake: Lake) -> None:
    for key in (["--key", "id,name"], ["--key", "id", "--key", "name"]):
        (rows,) = mere.json("diff", "dev", "--rows", *key, "--table", "gold.t")["rows"]
        assert (rows["table"], rows["key"], rows["added"], rows["removed"]) == ("gold.t", ["id", "name"], 1, 1)
    assert rows["added_rows"] == [{"id": 4, "name": "plain", "day": "2026-11-02"}]
    assert "rows" not in mere.json("diff", "dev")


def test_options_of_rows_want_rows(mere: Shell, lake: Lake) -> None:
    assert "Add --rows." in mere("diff", "dev", "--key", "id", exit_code=2).stderr
    mere("diff", "dev", "--rows", "--key", "id", "--no-key", exit_code=2)


def test_a_review_is_one_page_that_needs_nothing_else(mere: Shell, lake: Lake) -> None:
    changed = iceberg_tables.rows_of(2).set_column(1, "name", [["<script>alert('&')</script>"]])
    lake.branch("odd")
    lake.pyiceberg("odd").load_table("gold.t").overwrite(changed, "id = 2")
    assert mere("diff", "odd", "--rows", "--key", "id", "--html", "r.html").stdout == "wrote r.html\n"
    text = (mere.folder / "r.html").read_text(encoding="utf-8")
    assert "<script" not in text
    assert "<del>plain</del> <ins>&lt;script&gt;" in text
    assert "main → odd" in text
    assert not any(word in text for word in ("http", "src=", "href=", "@import", "url("))
    assert mere.json("diff", "dev", "--html", "s.html")["tables"]
    assert "column note added" in (mere.folder / "s.html").read_text(encoding="utf-8")

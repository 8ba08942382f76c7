"""`mere manifest`: the project and its state as one document, and the same facts in plans, events and records."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mere.cli import main
from mere.config import load
from mere.pipeline.run.manifest import profile_document
from mere.project.examples import names
from tests.pipeline.conftest import MakeShop
from tests.pipeline.jsonschema import wrong
from tests.pipeline.shop import FIRST, WHOLE, Shop

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/schemas/manifest-1.json").read_text(encoding="utf-8"))


def invalid(document: Any) -> list[str]:
    return wrong(document, SCHEMA, SCHEMA)


def manifest(it: Shop, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(it("manifest", *arguments, "--json").stdout)
    return found


def model(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in found["models"] if each["model"] == name)


@pytest.mark.parametrize("example", names())
def test_the_manifest_of_every_example_has_the_form_that_is_documented(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CliRunner().invoke(main, ["init", str(tmp_path / "p"), "--example", example]).exit_code == 0
    monkeypatch.chdir(tmp_path / "p")
    done = CliRunner().invoke(main, ["manifest", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert invalid(found) == []
    assert [audit for each in found["models"] for audit in each["audits"]]


def test_the_schema_refuses_what_is_not_in_it() -> None:
    assert "$.mere is missing" in invalid({})
    assert invalid({"schema_version": 2, "secret": 1})[-1] == "$.secret is not in the schema"


def test_a_built_project_tells_its_state_and_every_tool_the_same(shop: MakeShop) -> None:
    settings = "-- owner: ann\n    -- tags: [core]\n    -- key: id\n    -- kind"
    silver = WHOLE["models/silver/events.sql"].replace("-- kind", settings)
    it = shop({**WHOLE, "models/silver/events.sql": silver})
    it.land(*FIRST)
    assert model(manifest(it), "silver.events")["state"] is None
    step = next(each for each in json.loads(it("plan", "--json").stdout)["steps"] if each["model"] == "silver.events")
    built = next(each for each in it.run() if each["event"] == "built" and each["model"] == "silver.events")
    found = manifest(it)
    assert invalid(found) == []
    now = model(found, "silver.events")
    for told in (step, built, now):
        assert (told["owner"], told["tags"], told["key"], told["grain"]) == ("ann", ["core"], ["id"], "day")
        assert {each["table"] for each in told["inputs"]} == {"bronze.events", "raw.cities"}
    assert [(each["name"], each["type"]) for each in built["columns"]][:2] == [("id", "long"), ("city", "string")]
    assert built["columns"] == now["columns"]
    assert (built["rows_total"], now["state"]["rows_total"]) == (5, 5)
    assert built["snapshot_id"] == now["state"]["snapshot_id"]
    assert built["range"] == now["state"]["range"]
    assert built["range"][0] == "2024-02-01"
    assert built["started_at"] < built["ended_at"]
    assert {each["id"] for each in built["audits"]} <= {each["id"] for each in now["audits"]}
    run = json.loads(it("runs", "show", it.runs()[0]["id"], "--json").stdout)
    assert run["models"]["silver.events"]["range"] == built["range"]
    assert (now["state"]["last_run"]["id"], now["state"]["last_run"]["status"]) == (run["id"], "succeeded")
    assert now["state"]["last_commit"]["id"] == found["ref"]["commit"]["id"]
    assert {"source": "silver.events", "target": "gold.daily"} in found["edges"]
    assert (found["tags"], found["owners"]) == ({"core": ["silver.events"]}, {"ann": ["silver.events"]})
    assert [each["table"] for each in found["tables"]] == ["landing.events"]
    assert model(manifest(it, "--at", "main~1"), "gold.daily")["state"] is None


def test_a_password_is_not_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "name: x\nprofiles:\n  local:\n    lake: lake\n    catalog: ${TEST_URL}\n"
    (tmp_path / "mere.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("TEST_URL", "postgresql://ann:hush@db.example.org:5433/lake?password=hush")
    found = profile_document(load(tmp_path / "mere.yaml"))
    assert "hush" not in json.dumps(found)
    assert found["catalog"] == "postgresql://db.example.org:5433/lake"


def test_an_audit_has_the_same_id_wherever_it_stands(tmp_path: Path) -> None:
    audits = ["{assert: amount > 0}", "{assert: amount < 0}", "{unique: [id]}", "{assert: amount > 0, where: id > 1}"]
    it = Shop(tmp_path / "shop", {})

    def ids(order: list[str]) -> list[str]:
        it.write({"models/gold/x.sql": f"-- audits: [{', '.join(order)}]\nSELECT id, amount FROM landing.events"})
        return [each["id"] for each in manifest(it)["models"][0]["audits"]]

    first = ids(audits)
    assert len(set(first)) == 4
    assert all(re.fullmatch("[A-Za-z0-9_]+", each) for each in first)
    assert ids(audits[::-1]) == first[::-1]
    assert ids([audits[2].replace("[id]}", "[id], severity: warn}")]) == [first[2]]

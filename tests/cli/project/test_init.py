"""mere init: a project from nothing, or from an example."""

from __future__ import annotations

import secrets
import shlex
from pathlib import Path

import pytest

from mere.project import examples, ignored
from tests.cli.test_cli import Shell
from tests.services.postgres import PASSWORD, Postgres
from tests.services.s3 import S3Server

ROOT = Path(__file__).resolve().parents[3]


def files(folder: Path) -> dict[str, bytes]:
    return {each.relative_to(folder).as_posix(): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_a_plain_project_has_its_folders_and_says_how_to_go_on(tmp_path: Path) -> None:
    done = Shell(tmp_path)("init", "shop")
    made = sorted(each.name for each in (tmp_path / "shop").iterdir())
    assert made == [".gitignore", "audits", "lake", "macros", "mere.yaml", "models", "seeds", "sources", "tests"]
    assert "models/gold/hello.sql" in done.stdout
    assert "mere run" in done.stdout
    shop = Shell(tmp_path / "shop")
    (tmp_path / "shop" / "models" / "gold").mkdir()
    (tmp_path / "shop" / "models" / "gold" / "hello.sql").write_text("SELECT 1 AS id, 'hello' AS greeting\n")
    assert [step["model"] for step in shop.json("plan")["steps"]] == ["gold.hello"]


def test_a_cloned_project_gets_the_lake_that_it_names_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "mere.yaml").write_text("name: shop\nprofiles:\n  local:\n    lake: data\n")
    assert Shell(tmp_path).json("init")["made"] == ["lake"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data", "mere.yaml"]


@pytest.mark.parametrize("name", examples.names())
def test_an_example_is_copied_whole_and_can_be_planned(tmp_path: Path, name: str) -> None:
    done = Shell(tmp_path).json("init", "shop", "--example", name)
    assert done["made"] == ["project", "lake"]
    source, copied = files(ROOT / "examples" / name), files(tmp_path / "shop")
    left = ("lake/", "lake-", "data/", ".mere/", ".gitignore")
    wanted = {path for path in source if not path.startswith(left) and "__pycache__" not in path}
    assert {path: source[path] for path in wanted} == {
        path: content for path, content in copied.items() if not path.startswith(left)
    }
    steps = Shell(tmp_path / "shop").json("plan")["steps"]
    assert {step["action"] for step in steps} == {"build"}


@pytest.mark.parametrize(("name", "count"), [("taxi", 3), ("market", 10)])
def test_an_example_that_loads_files_gets_a_few_and_the_command_for_more_leaves_them_be(
    tmp_path: Path, name: str, count: int
) -> None:
    said = Shell(tmp_path)("init", "shop", "--example", name).stdout
    assert f"generated {count} files in {tmp_path / 'shop' / 'data'}" in said
    before = files(tmp_path / "shop" / "data")
    assert len(before) == count
    (more,) = (line.partition(": mere ")[2] for line in said.splitlines() if line.startswith("for more, in "))
    Shell(tmp_path / "shop")(*more.split())
    after = files(tmp_path / "shop" / "data")
    assert len(after) > count
    assert after.items() >= before.items()


def test_an_example_is_not_mixed_with_data_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    refused = Shell(tmp_path)("init", "--example", "taxi", exit_code=1)
    assert "data already exists. Nothing was changed." in refused.stderr
    assert files(tmp_path) == {}


def test_lakes_and_generated_data_are_kept_out_of_git(tmp_path: Path) -> None:
    mere = Shell(tmp_path)
    mere("init", "shop")
    assert (tmp_path / "shop" / ".gitignore").read_text() == "lake/\n.mere/\n"
    mere("init", "rides", "--example", "taxi")
    assert (tmp_path / "rides" / ".gitignore").read_text() == "lake/\nlake-tlc/\n.mere/\ndata/\n"


def test_a_gitignore_that_is_there_gets_only_what_it_does_not_have(tmp_path: Path) -> None:
    file = tmp_path / ".gitignore"
    file.write_bytes(b"# \xe9t\xe9\n/lake\n*.log")
    Shell(tmp_path)("init")
    assert file.read_bytes() == b"# \xe9t\xe9\n/lake\n*.log\n.mere/\n"


def test_the_lake_of_another_profile_is_kept_out_of_git_too(tmp_path: Path) -> None:
    mere = Shell(tmp_path)
    mere("init")
    with (tmp_path / "mere.yaml").open("a") as settings:
        settings.write("  rest:\n    lake: lake_rest\n")
    mere("--profile", "rest", "init")
    assert (tmp_path / ".gitignore").read_text() == "lake/\n.mere/\nlake_rest/\n"


def test_only_lakes_inside_of_the_project_are_ignored(tmp_path: Path) -> None:
    settings = tmp_path / "mere.yaml"
    settings.write_text(
        "name: shop\nprofiles:\n  local: {lake: ./data/lake}\n  b: {lake: /srv/lake}\n  c: {lake: ../lake}\n"
        "  d: {lake: '${LAKE}'}\n  e: {lake: 's3://b/lake', catalog: 'postgresql://h/d'}\n  f: {spark: {memory: 1g}}\n"
    )
    assert ignored.ignored(settings) == ["data/lake/", "lake/", ".mere/"]


def test_what_runs_left_in_an_example_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (
        "mere.yaml",
        "lake/catalog.db",
        "data/a.csv",
        ".mere/cache",
        "models/lake/t.sql",
        "models/__pycache__/a.pyc",
    ):
        file = tmp_path / "examples" / "small" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("name: small\n")
    monkeypatch.setattr(examples, "_home", lambda: tmp_path / "examples")
    examples.copy("small", tmp_path / "shop")
    assert set(files(tmp_path / "shop")) == {"mere.yaml", "models/lake/t.sql"}


def test_an_unknown_example_lists_those_that_there_are(tmp_path: Path) -> None:
    refused = Shell(tmp_path)("init", "shop", "--example", "ordres", exit_code=2)
    assert "Did you mean `orders`?" in refused.stderr
    assert all(name in refused.stderr for name in examples.names())
    assert not (tmp_path / "shop").exists()


def test_an_example_writes_over_nothing(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    refused = Shell(tmp_path)("init", "--example", "orders", exit_code=1)
    assert "README.md already exists. Nothing was changed." in refused.stderr
    assert files(tmp_path) == {"README.md": b"mine"}


def test_a_bucket_that_is_missing_is_made_by_what_the_error_says(
    tmp_path: Path, postgres_server: Postgres, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that has the name of a part of a lake."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.settings.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.settings.secret_key)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    lakes = {"team": "s3://warehouse/shop", "whole": "s3://warehouse", "inner": "s3://warehouse/shop/warehouse/x"}
    databases = {name: postgres_server.new_database(f"lake_{secrets.token_hex(6)}") for name in lakes}
    profiles = "".join(
        f"  {name}:\n    lake: {lake}\n    catalog: {databases[name].replace(f':{PASSWORD}', '')}\n"
        for name, lake in lakes.items()
    )
    (tmp_path / "mere.yaml").write_text(f"name: shop\nprofiles:\n{profiles}")
    mere = Shell(tmp_path)

    refused = mere("--profile", "team", "init", exit_code=1).stderr
    assert f"There is no bucket warehouse at {s3_server.endpoint}" in refused
    (remedy,) = (line.partition(": mere ")[2] for line in refused.splitlines() if line.startswith("Create it as well"))
    said = mere(*shlex.split(remedy)).stdout
    assert "made the bucket of s3://warehouse/shop" in said
    assert "no tables on main" in mere("--profile", "team", "tables").stdout

    inner = mere("--profile", "inner", "init", exit_code=1).stderr
    assert "is in the warehouse of the lake at s3://warehouse/shop" in inner
    found = mere.json("--profile", "whole", "init", "--create-bucket")
    assert (found["lake"], found["bucket"]) == ("s3://warehouse", False)
    assert "is for a lake on S3" in mere("init", "--create-bucket", exit_code=2).stderr

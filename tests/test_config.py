"""mere.yaml: what it may say, and what is said when it says something else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mere import config
from mere.config import SparkSettings
from mere.errors import ConfigError

FULL = """\
name: shop
profiles:
  local:
    lake: data/lake
    spark:
      memory: 4G
      cores: 3
      ui: true
      ml: true
      conf:
        spark.sql.ansi.enabled: false
        spark.sql.shuffle.partitions: 8
  team:
    lake: ${LAKE}
    spark:
      conf:
        spark.hadoop.fs.s3a.secret.key: ${SECRET}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "mere.yaml"
    path.write_text(text)
    return path


def error(folder: Path, text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        config.load(written(folder, text))
    return caught.value


def test_a_profile_says_where_the_lake_is_and_how_spark_runs(tmp_path: Path) -> None:
    path = written(tmp_path, FULL)
    project = config.load(path)
    assert (project.name, project.path, project.profile) == ("shop", path, "local")
    assert project.lake == tmp_path / "data" / "lake"
    assert project.spark == SparkSettings(
        memory="4g",
        cores=3,
        ui=True,
        ml=True,
        conf={"spark.sql.ansi.enabled": "false", "spark.sql.shuffle.partitions": "8"},
    )


@pytest.mark.parametrize("text", ["name: shop", "name: shop\nprofiles:\n", "name: shop\nprofiles:\n  local:\n"])
def test_a_name_is_enough(tmp_path: Path, text: str) -> None:
    project = config.load(written(tmp_path, text))
    assert (project.profile, project.lake, project.spark) == ("local", tmp_path / "lake", SparkSettings())


def test_the_profile_is_chosen_by_argument_then_by_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "name: shop\nprofiles:\n  a: {lake: one}\n  b: {lake: two}\n")
    monkeypatch.setenv("MERE_PROFILE", "a")
    assert config.load(path).lake == tmp_path / "one"
    assert config.load(path, "b").lake == tmp_path / "two"


def test_variables_are_taken_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("SECRET", "s3cr3t")
    project = config.load(written(tmp_path, FULL), "team")
    assert project.lake == tmp_path / "elsewhere"
    assert project.spark.conf == {"spark.hadoop.fs.s3a.secret.key": "s3cr3t"}


def test_only_the_chosen_profile_needs_its_variables(tmp_path: Path) -> None:
    path = written(tmp_path, FULL)
    config.load(path, "local")
    with pytest.raises(ConfigError, match=rf"{path}:14: .*`LAKE`, which is not set"):
        config.load(path, "team")


def test_two_dollars_are_one(tmp_path: Path) -> None:
    assert config.load(written(tmp_path, "name: $${X}")).name == "${X}"


def test_an_unknown_key_is_named_with_its_line_and_the_nearest_one(tmp_path: Path) -> None:
    wrong = error(tmp_path, "name: shop\nprofiles:\n  local:\n    spark:\n      corse: 2\n")
    assert wrong.message == f"{tmp_path / 'mere.yaml'}:5: unknown key `corse` in `profiles.local.spark`"
    assert wrong.remedy == "Did you mean `cores`? Valid keys: conf, cores, memory, ml, ui."


def test_a_mistake_in_another_profile_is_found_too(tmp_path: Path) -> None:
    assert ":3: unknown key `lakes`" in error(tmp_path, "name: shop\nprofiles:\n  team: {lakes: x}\n").message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("profiles: {}", "1: the key `name` is missing"),
        ("", "1: the key `name` is missing"),
        ("- a", "1: mere.yaml must be a map"),
        ("name: [a]", "1: `name` must be a single value"),
        ("name: ''", "1: `name` is empty"),
        ("name: a\nname: b", "2: the key `name` appears twice in mere.yaml"),
        ("name: a\nprofiles:\n  x: 1", "3: `profiles.x` must be a map"),
        ("name: a\nprofiles:\n  local: {spark: {memory: lots}}", "3: `profiles.local.spark.memory` must be an amount"),
        ("name: a\nprofiles:\n  local: {spark: {cores: 0}}", "3: `profiles.local.spark.cores` must be a whole number"),
        ("name: a\nprofiles:\n  local: {spark: {ui: maybe}}", "3: `profiles.local.spark.ui` must be `true` or `false`"),
        ("name: a\nprofiles:\n  local: {spark: {conf: {ansi: 1}}}", "3: `ansi` is not a Spark setting"),
        ("name: a\nprofiles:\n  x: {spark: {conf: {spark.driver.memory: 1g}}}", "`spark.driver.memory` has no effect"),
        ("name: a\n  b: c", "2: not valid YAML: mapping values are not allowed here"),
        ("name: 'a", "1: not valid YAML: found unexpected end of stream"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    message = error(tmp_path, text).message
    assert said in message
    assert message.startswith(f"{tmp_path / 'mere.yaml'}:")


def test_values_are_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s3cr3t")
    for text in ("cores: ${SECRET}", "memory: s3cr3t", "conf: s3cr3t", "ui: s3cr3t\n  x: y: z"):
        wrong = error(tmp_path, f"name: a\nprofiles:\n  local:\n    spark:\n      {text}\n")
        assert "s3cr3t" not in str(wrong)


def test_a_missing_profile_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no profile `tema`") as caught:
        config.load(written(tmp_path, FULL), "tema")
    assert caught.value.remedy == "Did you mean `team`? Valid profiles: local, team."


def test_a_missing_or_binary_file_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        config.load(tmp_path / "mere.yaml")
    (tmp_path / "mere.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        config.load(tmp_path / "mere.yaml")


def test_the_project_is_found_from_below(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert config.find_project(below) is None
    path = written(tmp_path, "name: a")
    assert config.find_project(below) == path
    assert config.find_project(tmp_path) == path


def test_a_folder_gives_a_project_its_name() -> None:
    assert [config.project_name(name) for name in ("shop", "My Shop!", "--", "A-b_1")] == [
        "shop", "my_shop", "lake", "a-b_1",
    ]  # fmt: skip


def test_mere_home_follows_the_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MERE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert config.mere_home() == tmp_path / ".cache" / "mere"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert config.mere_home() == tmp_path / "xdg" / "mere"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert config.mere_home() == tmp_path / "Library" / "Caches" / "mere"
    monkeypatch.setenv("MERE_HOME", "~/own")
    assert config.mere_home() == tmp_path / "own"


def test_importing_the_configuration_does_not_import_yaml() -> None:
    code = "import sys, mere.config; sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_catalog_may_be_in_postgres(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mere.yaml"
    monkeypatch.setenv("LAKE_PASSWORD", "hunter2")
    file.write_text("name: a\nprofiles:\n  local:\n    catalog: postgresql://ann:${LAKE_PASSWORD}@db/lake\n")
    assert config.load(file).catalog == "postgresql://ann:hunter2@db/lake"
    for wrong in ("mysql://db/lake", "postgresql://db"):
        file.write_text(f"name: a\nprofiles:\n  local:\n    catalog: {wrong}\n")
        with pytest.raises(ConfigError, match=r"mere\.yaml:4: .*URL of a Postgres database"):
            config.load(file)


def test_a_password_does_not_belong_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mere.yaml"
    file.write_text("name: a\nprofiles:\n  local:\n    catalog: postgresql://ann:hunter2@db/lake\n")
    with pytest.raises(ConfigError, match="holds a password") as caught:
        config.load(file)
    assert "hunter2" not in str(caught.value)

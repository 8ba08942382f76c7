"""mere.yaml: what it may say, and what is said when it says something else."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from mere import config
from mere.config import S3Settings
from mere.errors import ConfigError
from mere.sparkconfig import RestSettings, SparkSettings

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
    assert project.lake == str(tmp_path / "data" / "lake")
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
    assert (project.profile, project.lake, project.spark) == ("local", str(tmp_path / "lake"), SparkSettings())


def test_the_profile_is_chosen_by_argument_then_by_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "name: shop\nprofiles:\n  a: {lake: one}\n  b: {lake: two}\n")
    monkeypatch.setenv("MERE_PROFILE", "a")
    assert config.load(path).lake == str(tmp_path / "one")
    assert config.load(path, "b").lake == str(tmp_path / "two")


def test_variables_are_taken_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("SECRET", "s3cr3t")
    project = config.load(written(tmp_path, FULL), "team")
    assert project.lake == str(tmp_path / "elsewhere")
    assert project.spark.conf == {"spark.hadoop.fs.s3a.secret.key": "s3cr3t"}


def test_only_the_chosen_profile_needs_its_variables(tmp_path: Path) -> None:
    path = written(tmp_path, FULL)
    config.load(path, "local")
    with pytest.raises(ConfigError, match=rf"{path}:14: .*`LAKE`, which is not set"):
        config.load(path, "team")


def test_spark_may_be_kept_warm_or_be_somebody_elses(tmp_path: Path) -> None:
    text = "name: a\nprofiles:\n  local: {spark: {keep_warm: 10m}}\n  x: {spark: {remote: 'sc://h:1/;use_ssl=true'}}\n"
    assert config.load(written(tmp_path, text)).spark == SparkSettings(keep_warm=timedelta(minutes=10))
    assert config.load(tmp_path / "mere.yaml", "x").spark == SparkSettings(remote="sc://h:1/;use_ssl=true")


def test_two_dollars_are_one(tmp_path: Path) -> None:
    assert config.load(written(tmp_path, "name: $${X}")).name == "${X}"


def test_an_unknown_key_is_named_with_its_line_and_the_nearest_one(tmp_path: Path) -> None:
    wrong = error(tmp_path, "name: shop\nprofiles:\n  local:\n    spark:\n      corse: 2\n")
    assert wrong.message == f"{tmp_path / 'mere.yaml'}:5: unknown key `corse` in `profiles.local.spark`"
    assert wrong.remedy == (
        "Did you mean `cores`? Valid keys: catalog, conf, cores, keep_warm, master, memory, ml, remote, signed, token,"
        " ui, uri."
    )


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
        ("name: a\nprofiles:\n  local: {spark: {keep_warm: ever}}", "spark.keep_warm` must be a length"),
        ("name: a\nprofiles:\n  local: {spark: {keep_warm: 0m}}", "spark.keep_warm` must be a length"),
        ("name: a\nprofiles:\n  local: {spark: {remote: 'host:1'}}", "spark.remote` is not the address"),
        ("name: a\nprofiles:\n  local: {spark: {remote: 'sc://h:x'}}", "spark.remote` is not the address"),
        ("name: a\nprofiles:\n  local: {spark: {remote: 'sc://h:1/;token=x'}}", "spark.remote` holds a secret"),
        ("name: a\nprofiles:\n  x: {spark: {remote: 'sc://h', cores: 1}}", "3: `profiles.x.spark.cores` has no effect"),
        ("name: a\nprofiles:\n  local: {spark: {conf: {ansi: 1}}}", "3: `ansi` is not a Spark setting"),
        ("name: a\nprofiles:\n  x: {spark: {conf: {spark.driver.memory: 1g}}}", "`spark.driver.memory` has no effect"),
        ("name: a\n  b: c", "2:4: not valid YAML: there is a `:` where no key is allowed"),
        ("name: 'a", "1:7: not valid YAML: a quote is opened here and never closed"),
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
    with pytest.raises(ConfigError, match="1:1: not UTF-8 text"):
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


@pytest.mark.parametrize(
    "written",
    ["ann:hunter2@db/lake", "ann:hunter2@${HOST}/lake", "ann:hunter2${HOST}@db/lake", "ann@db/lake?password=hunter2"],
)
def test_a_password_does_not_belong_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.setenv("HOST", "db")
    found = error(tmp_path, f"name: a\nprofiles:\n  local:\n    catalog: postgresql://{written}\n")
    assert "holds a password" in found.message
    assert "hunter2" not in str(found)


@pytest.mark.parametrize(
    ("written", "catalog"),
    [
        ("postgresql://ann:${PART}@db/lake", "postgresql://ann:h%5Bu%2Fn%25%20t%3A%40%E2%84%80@db/lake"),
        ("postgresql://db/lake?user=ann&password=${PART}", "postgresql://db/lake?user=ann&password=h%5Bu%2Fn%25%20t%3A%40%E2%84%80"),
        ("postgresql://ann@${HOST}/${NAME}", "postgresql://ann@[::1]:5432/my%20lake"),
        ("${URL}", "postgresql://ann:hun%25ter@db/lake?sslmode=require"),
    ],
)  # fmt: skip
def test_what_a_variable_brings_into_a_url_is_encoded_for_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, catalog: str
) -> None:
    url = "postgresql://ann:hun%25ter@db/lake?sslmode=require"
    with_environment(monkeypatch, PART="h[u/n% t:@℀", HOST="[::1]:5432", NAME="my lake", URL=url)
    path = tmp_path / "mere.yaml"
    path.write_text(f"name: a\nprofiles:\n  local:\n    catalog: {written}\n")
    project = config.load(path)
    assert project.catalog == catalog
    assert catalog not in repr(project)


@pytest.mark.parametrize("url", ["postgresql://ann:hun[ter2@db/lake", "postgresql://ann:hun℀ter2@db/lake", "hunter2"])
def test_a_url_that_cannot_be_read_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("URL", url)
    found = error(tmp_path, "name: a\nprofiles:\n  local:\n    catalog: ${URL}\n")
    assert "URL of a Postgres database" in found.message
    assert "ter2" not in str(found)
    assert found.__suppress_context__ or found.__context__ is None


# s3

ON_S3 = """\
name: shop
profiles:
  local:
    lake: s3://bucket/shop
    catalog: postgresql://db/lake
"""
KEYS = {"AWS_ACCESS_KEY_ID": "key-1", "AWS_SECRET_ACCESS_KEY": "secret-1"}


def with_environment(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_a_lake_on_s3_takes_from_the_environment_what_aws_tools_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_environment(monkeypatch, **KEYS, AWS_SESSION_TOKEN="token-1", AWS_REGION="eu-west-1")
    project = config.load(written(tmp_path, ON_S3))
    assert (project.lake, project.s3) == (
        "s3://bucket/shop",
        S3Settings("key-1", "secret-1", "token-1", None, "eu-west-1"),
    )
    assert project.s3 == S3Settings.from_environment()
    assert not {"key-1", "secret-1", "token-1"} & set(repr(project).split("'"))
    with_environment(monkeypatch, AWS_ENDPOINT_URL="http://other:1/", AWS_ENDPOINT_URL_S3="http://host:9000/")
    assert S3Settings.from_environment().endpoint == "http://host:9000"


def test_mere_yaml_goes_before_the_environment_and_keys_are_never_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_environment(monkeypatch, **KEYS, AWS_SESSION_TOKEN="token-1", AWS_REGION="eu-west-1", MINE="key-2", ITS="s-2")
    text = (
        ON_S3
        + """\
    s3:
      endpoint: https://s3.example.org
      region: home
      path_style: false
      access_key: ${MINE}
      secret_key: ${ITS}
"""
    )
    expected = S3Settings("key-2", "s-2", None, "https://s3.example.org", "home", False)
    assert config.load(written(tmp_path, text)).s3 == expected
    vending = config.load(written(tmp_path, text + "      vend: keys\n")).s3
    assert vending == replace(expected, vends=True)


def over_rest(tmp_path: Path, settings: str, top: str = "") -> SparkSettings:
    return config.load(written(tmp_path, f"name: a\nprofiles:\n  local:\n{top}    spark: {{{settings}}}\n")).spark


def test_spark_reaches_the_lake_over_http_where_the_profile_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "mere_1_secret")
    assert over_rest(tmp_path, "catalog: jdbc").rest is None
    assert over_rest(tmp_path, "catalog: rest").rest == RestSettings()
    far = over_rest(tmp_path, "catalog: rest, uri: 'https://h:1/iceberg/', token: '${MINE}', remote: 'sc://h'")
    assert far.rest == RestSettings("https://h:1/iceberg", "mere_1_secret")
    assert "secret" not in repr(far)
    assert over_rest(tmp_path, "catalog: rest, remote: 'sc://localhost:1'").rest == RestSettings()
    assert over_rest(tmp_path, "catalog: rest, uri: 'http://[::1]:1', token: '${MINE}'").rest
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "2")
    on_s3 = "    lake: s3://b\n    catalog: postgresql://h/d\n"
    assert over_rest(tmp_path, "catalog: rest, signed: true", on_s3).rest == RestSettings(signed=True)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("catalog: nessie", "`profiles.local.spark.catalog` cannot be `nessie`"),
        ("uri: 'http://h'", "`profiles.local.spark.uri` has no effect without `catalog: rest`"),
        ("catalog: jdbc, signed: true", "`profiles.local.spark.signed` has no effect without `catalog: rest`"),
        ("catalog: rest, signed: true", "`profiles.local.spark.signed` has no effect: the lake is a folder"),
        ("catalog: rest, token: '${MINE}'", "`profiles.local.spark.token` has no effect without `uri`"),
        ("catalog: rest, uri: 'https://h', token: abc", "`profiles.local.spark.token` holds a secret"),
        ("catalog: rest, uri: 'https://ann:pw@h'", "`profiles.local.spark.uri` holds a secret"),
        ("catalog: rest, uri: 'h:8181'", "`profiles.local.spark.uri` is not the address of a REST catalog"),
        ("catalog: rest, uri: 'http://h:x'", "`profiles.local.spark.uri` is not the address of a REST catalog"),
        (
            "catalog: rest, uri: 'http://h', token: '${MINE}'",
            "`profiles.local.spark.uri` would send the token in plain",
        ),
        ("catalog: rest, remote: 'sc://h:1'", "`profiles.local.spark.catalog` needs a `uri`"),
    ],
)
def test_what_is_wrong_with_a_rest_catalog_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str, said: str
) -> None:
    monkeypatch.setenv("MINE", "mere_1_secret")
    with pytest.raises(ConfigError) as caught:
        over_rest(tmp_path, settings)
    assert said in caught.value.message
    assert caught.value.line == 4
    assert caught.value.remedy
    assert "secret" not in str(caught.value).replace("holds a secret", "")


@pytest.mark.parametrize("key", ["access_key", "secret_key", "session_token"])
@pytest.mark.parametrize("value", ["AKIA-literal", "x${NAME}", "$${NAME}"])
def test_a_key_is_never_written_into_the_file(tmp_path: Path, key: str, value: str) -> None:
    others = "".join(
        f"      {other}: ${{NAME}}\n" for other in ("access_key", "secret_key", "session_token") if other != key
    )
    found = error(tmp_path, f"{ON_S3}    s3:\n      {key}: {value}\n{others}")
    assert f"`profiles.local.s3.{key}` holds a secret" in found.message
    assert value not in str(found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ON_S3.replace("    catalog: postgresql://db/lake\n", ""), "a lake on S3 needs a `catalog`"),
        (ON_S3, "There are no keys for S3"),
        (ON_S3.replace("s3://bucket/shop", "lake") + "    s3: {region: x}\n", "`s3` has no effect"),
        (ON_S3 + "    s3: {regoin: x}\n", "unknown key `regoin`"),
        (ON_S3 + "    s3: {vend: true}\n", "`profiles.local.s3.vend` cannot be `true`"),
        (ON_S3 + "    sources: {a: {url: 's3://b', s3: {vend: keys}}}\n", "unknown key `vend`"),
        (ON_S3 + "    s3: {access_key: '${A}'}\n", "belong together"),
        (ON_S3 + "    s3: {session_token: '${A}'}\n", "belongs to an `access_key`"),
    ],
)
def test_what_is_wrong_with_s3_is_said(tmp_path: Path, text: str, said: str) -> None:
    found = error(tmp_path, text)
    assert said in found.message
    assert found.remedy


@pytest.mark.parametrize("endpoint", ["host:9000", "ftp://host", "http://", "http://u:p@host", "http://host/path"])
def test_the_variable_with_a_wrong_endpoint_is_named(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://host:9000")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    with pytest.raises(ConfigError, match=r"^AWS_ENDPOINT_URL_S3 is not the address of an S3 server"):
        S3Settings.from_environment()


@pytest.mark.parametrize("endpoint", ["host:9000", "ftp://host", "http://", "http://u:p@host", "http://host/path"])
def test_an_endpoint_is_the_address_of_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    with_environment(monkeypatch, **KEYS)
    assert (
        "is not the address of an S3 server" in error(tmp_path, f"{ON_S3}    s3: {{endpoint: '{endpoint}'}}\n").message
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(ConfigError, match="is not the address of an S3 server"):
        S3Settings.from_environment()


def test_the_landing_of_a_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "key")
    s3 = "lake: s3://bucket/lake, catalog: postgresql://db.example.org/lake"

    def landing(profile: str) -> object:
        (tmp_path / "mere.yaml").write_text(f"name: shop\nprofiles:\n  local: {{{profile}}}\n")
        found = config.load(tmp_path / "mere.yaml").landing
        return found and (found.location, found.keep)

    assert landing("lake: lake") is None
    assert landing("lake: lake, landing: raw") == (str(tmp_path / "raw"), None)
    assert landing(s3) == ("s3://bucket/lake/landing", None)
    assert landing(f"{s3}, landing: {{keep: 400d}}") == ("s3://bucket/lake/landing", timedelta(days=400))
    assert landing(f"{s3}, landing: s3://other/raw/") == ("s3://other/raw", None)
    assert landing(f"{s3}, landing: off") is None
    for wrong in (f"{s3}, landing: raw", "lake: lake, landing: s3://bucket/raw"):
        with pytest.raises(ConfigError, match="must be where the lake is"):
            landing(wrong)
    with pytest.raises(ConfigError, match="unknown key `kep`"):
        landing(f"{s3}, landing: {{kep: 400d}}")


def test_a_cluster_needs_a_lake_that_its_workers_see(tmp_path: Path) -> None:
    def spark(text: str) -> SparkSettings:
        (tmp_path / "mere.yaml").write_text(f"name: shop\nprofiles:\n  local:\n    spark: {{{text}}}\n")
        return config.load(tmp_path / "mere.yaml").spark

    assert spark("master: 'spark://127.0.0.1:7077'").master == "spark://127.0.0.1:7077"
    for text, said in {
        "master: 'spark://host:7077'": "do not see the folder of this lake",
        "master: yarn": "do not see the folder of this lake",
        "master: 'local[2]'": "is for a cluster",
        "master: 'spark://host'": "is not the address of a master",
        "master: 'k8s://https://ann:secret@host'": "holds a secret",
        "master: 'spark://localhost:7077', remote: 'sc://host'": "has no effect beside `remote`",
    }.items():
        with pytest.raises(ConfigError, match=said):
            spark(text)


def test_a_profile_names_the_trino_that_reads_its_lake(tmp_path: Path) -> None:
    def trino(url: str) -> str:
        return f"name: shop\nprofiles: {{local: {{trino: '{url}'}}}}\n"

    assert config.load(written(tmp_path, trino("https://t.example.org:8443/"))).trino == "https://t.example.org:8443"
    assert config.load(written(tmp_path, "name: shop\n")).trino is None
    wrong = error(tmp_path, trino("t.example.org"))
    assert "is not the address of Trino" in wrong.message
    assert wrong.remedy == "Write https://host:8443."
    assert "holds a secret" in error(tmp_path, trino("https://ann:pw@t.example.org")).message

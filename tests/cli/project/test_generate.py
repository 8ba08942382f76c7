from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mere.cli import main

OPTIONS = {
    "taxi": ["--months", "2", "--rows", "100"],
    "market": ["--days", "2", "--tickers", "2"],
    "jaffle": ["--customers", "5", "--days", "40"],
}
SHOP = ("customers", "orders", "payments")
FILES = {
    "taxi": ["taxi_zone_lookup.csv", "yellow_tripdata_2024-01.parquet", "yellow_tripdata_2024-02.parquet"],
    "market": ["2024/01/2024-01-02.csv.gz", "2024/01/2024-01-03.csv.gz"],
    "jaffle": [
        *(f"exports/{name}_{day}.csv" for day in ("2024-01-31", "2024-02-09") for name in SHOP),
        *(f"raw_{name}.csv" for name in SHOP),
    ],
}


@pytest.mark.parametrize("name", OPTIONS)
def test_json_names_each_file_with_its_rows_and_bytes(name: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["generate", name, *OPTIONS[name], "--json", str(tmp_path / "data")])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert [file["file"] for file in told["files"]] == FILES[name]
    assert {file["state"] for file in told["files"]} == {"written"}
    for file in told["files"]:
        assert (tmp_path / "data" / file["file"]).stat().st_size == file["bytes"]
    assert told["rows"] == sum(file["rows"] for file in told["files"]) > 0
    assert told["bytes"] == sum(file["bytes"] for file in told["files"])
    assert done.stderr == ""


def test_files_that_differ_stay_unless_forced(tmp_path: Path) -> None:
    arguments = ["generate", "taxi", "--months", "1", "--rows", "50", str(tmp_path)]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    again = CliRunner().invoke(main, arguments)
    assert again.exit_code == 0
    assert "2 files" in again.stdout
    assert "2 of them already there" in again.stdout
    month = tmp_path / "yellow_tripdata_2024-01.parquet"
    before = month.read_bytes()
    other = [*arguments, "--seed", "2"]
    refused = CliRunner().invoke(main, other)
    assert refused.exit_code == 1
    assert f"{month} already exists and differs" in refused.stderr
    assert month.read_bytes() == before
    assert CliRunner().invoke(main, [*other, "--force"]).exit_code == 0
    assert month.read_bytes() != before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["taxi", "--start", "January"], "'January' is not a day"),
        (["taxi", "--start", "2024-01-01T10:00"], "is not a day"),
        (["taxi", "--rows", "0"], "--rows"),
        (["taxi", "--seed", "-1"], "--seed"),
        (["market", "--poison", "2"], "--poison"),
        (["market", "--tickers", "17577"], "--tickers"),
        (["jaffle", "--days", "0"], "--days"),
        (["weather"], "weather"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    done = CliRunner().invoke(main, ["generate", *arguments, str(tmp_path / "data")])
    assert done.exit_code == 2
    assert message in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("mine")
    done = CliRunner().invoke(main, ["generate", "jaffle", str(tmp_path / "data")])
    assert done.exit_code == 2
    assert (tmp_path / "data").read_text() == "mine"

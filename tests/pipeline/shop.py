"""A small project with a lake, worked on through the command line as a user would."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import dedent
from typing import Any

import pyarrow as pa
from click.testing import CliRunner, Result

from mere.cli import main
from mere.lake.lake import Lake
from mere.lake.log.commits import Commit, CommitKind, Entries
from mere.lake.log.runs import RunStatus, holds
from mere.pipeline.state.state import PROPERTY, State

LANDING = pa.schema(
    [
        ("id", pa.int64()),
        ("city_id", pa.int64()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("amount", pa.int64()),
    ]
)

BRONZE = """
    -- kind: append
    SELECT id, city_id, at, amount FROM landing.events
"""
SILVER = """
    -- kind: incremental
    -- time_column: at
    -- grain: day
    -- inputs:
    --   raw.cities: {on_change: rebuild}
    -- audits:
    --   - unique: id
    --   - assert: amount >= 0
    SELECT e.id, c.name AS city, e.at, e.amount
    FROM bronze.events AS e
    JOIN raw.cities AS c ON c.city_id = e.city_id
    WHERE e.at >= :start AND e.at < :end
"""
DAILY = """
    -- kind: incremental
    -- time_column: day
    -- grain: day
    -- batch: 2
    SELECT CAST(at AS date) AS day, count(*) AS events, sum(amount) AS amount
    FROM silver.events
    WHERE at >= :start AND at < :end
    GROUP BY CAST(at AS date)
"""
VIEW = """
    -- kind: view
    SELECT city_id, upper(name) AS name FROM raw.cities
"""
TOTALS = """
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    from mere import model, table


    @model("gold.totals")
    def totals(events: DataFrame = table("silver.events"), names: DataFrame = table("staging.names")) -> DataFrame:
        loud = events.withColumn("name", F.upper("city")).join(names, "name")
        return loud.groupBy("name").agg(F.sum("amount").alias("amount"))
"""
CITIES = "city_id,name\n1,Wien\n2,Rom\n3,Oslo\n"

SMALL = {"models/gold/daily.sql": DAILY.replace("silver.events", "landing.events")}
WHOLE = {
    "seeds/raw/cities.csv": CITIES,
    "models/bronze/events.sql": BRONZE,
    "models/silver/events.sql": SILVER,
    "models/gold/daily.sql": DAILY,
    "models/staging/names.sql": VIEW,
    "models/gold/totals.py": TOTALS,
}

Row = tuple[int, int, str, int]  # id, city, time, amount
FIRST: tuple[Row, ...] = (
    (1, 1, "2024-02-01T10:00", 10),
    (2, 2, "2024-02-01T23:59", 5),
    (3, 1, "2024-02-02T00:00", 7),
    (4, 3, "2024-02-03T12:00", 1),
    (5, 2, "2024-02-05T08:00", 4),
)


def arrow(rows: Iterable[Row]) -> pa.Table:
    made = [
        {"id": id_, "city_id": city, "at": datetime.fromisoformat(at).replace(tzinfo=UTC), "amount": amount}
        for id_, city, at, amount in rows
    ]
    return pa.Table.from_pylist(made, schema=LANDING)


class Shop:
    """The project's folder, its lake, and commands run in there."""

    def __init__(self, folder: Path, files: Mapping[str, str], settings: str = "", catalog: str | None = None) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.environment = {"SHOP_CATALOG": catalog}  # it holds a password
        address = "    catalog: ${SHOP_CATALOG}\n" if catalog else ""
        (folder / "mere.yaml").write_text(
            f"name: shop\nprofiles:\n  local:\n    lake: lake\n{address}{dedent(settings)}"
        )
        self.write(files)
        self.lake = Lake.create(folder / "lake", catalog=catalog)
        self.lake.pyiceberg().create_namespace("landing")
        self.lake.pyiceberg().create_table("landing.events", LANDING)

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            file = self.folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(dedent(text).lstrip("\n"), encoding="utf-8")

    def replace(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text(encoding="utf-8")
        assert old in text
        (self.folder / name).write_text(text.replace(old, new), encoding="utf-8")

    def remove(self, name: str) -> None:
        (self.folder / name).unlink()

    # commands

    def __call__(self, *arguments: str, exit_code: int = 0) -> Result:
        here = Path.cwd()
        os.chdir(self.folder)
        try:
            done = CliRunner().invoke(main, arguments, env=self.environment)
        finally:
            os.chdir(here)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == exit_code, (done.stdout, done.stderr)
        return done

    def run(self, *arguments: str, exit_code: int = 0) -> list[dict[str, Any]]:
        """The events of `mere run`."""
        done = self("run", *arguments, "--json", exit_code=exit_code)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def built(self, *arguments: str) -> set[str]:
        """What a run has built."""
        return {event["model"] for event in self.run(*arguments) if event["event"] == "built"}

    def failed_run(self, *arguments: str) -> tuple[str, str]:
        """The id of a run that fails, and what it says."""
        done = self("run", *arguments, exit_code=1)
        return self.runs()[0]["id"], done.stderr

    def plan(self, *arguments: str) -> dict[str, dict[str, Any]]:
        """The steps of `mere plan` in which something is to do, by model, whatever `mere check` says of them."""
        steps = json.loads(self("plan", *arguments, "--no-check", "--json").stdout)["steps"]
        return {step["model"]: step for step in steps if step["action"] != "skip"}

    def runs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self("runs", "--json").stdout)
        return found

    def silence(self, run: str) -> None:
        """As if nothing had been heard of a run for a minute."""
        record = self.lake.store.run(run)
        assert record is not None
        past = datetime.now(UTC) - timedelta(minutes=1)
        self.lake.store.save_run(replace(record, status=RunStatus.RUNNING, beat_at=past, ended_at=None))

    def end_lease(self, run: str) -> None:
        """As if the run had not renewed its lease for as long as it lasts."""
        (holder,) = {lease.holder for lease in self.lake.store.leases() if holds(lease.holder, run)}
        assert self.lake.store.renew(holder, -timedelta(seconds=1))

    # data

    def land(self, *rows: Row, on: str = "main", table: str = "landing.events") -> None:
        """Append rows to a table as somebody else would, who knows nothing of mere."""
        found = self.lake.pyiceberg(on).load_table(table)
        found.append(arrow(rows).select([field.name for field in found.schema().fields]))

    def delete(self, table: str, condition: str, on: str = "main") -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyIceberg warns when it had to rewrite a file
            self.lake.pyiceberg(on).load_table(table).delete(condition)

    def rows(self, query: str, at: str = "main") -> list[tuple[Any, ...]]:
        """Of a table, or of a query."""
        text = query if " " in query else f"select * from {query}"
        with self.lake.sql(text, at) as result:
            return sorted(map(tuple, result.rows()), key=repr)

    def everything(self, at: str = "main") -> dict[str, list[tuple[Any, ...]]]:
        """The rows of every table and view on a ref, but for what was landed."""
        tables = [str(table) for table in self.lake.at(at) if table.namespace != "landing"]
        return {table: self.rows(table, at) for table in tables}

    def state(self, table: str, at: str = "main") -> State:
        found = State.from_json(self.lake.at(at).metadata(table).properties[PROPERTY])
        assert found is not None
        return found

    def pointers(self, at: str = "main") -> Entries:
        return self.lake.at(at).entries

    def published(self) -> list[Commit]:
        """The commits by which runs were published, newest first."""
        return [commit for commit in self.lake.log() if commit.kind is CommitKind.PUBLISH]

    def branches(self) -> list[str]:
        return [ref.name for ref in self.lake.refs()]


def expected(rows: Iterable[Row], cities: str = CITIES) -> dict[str, list[tuple[Any, ...]]]:
    """What the whole project makes of the landed rows, by hand."""
    names = dict(line.split(",") for line in cities.splitlines()[1:])
    landed = list(rows)
    events = [(id_, names[str(city)], _time(at), amount) for id_, city, at, amount in landed if str(city) in names]
    days = sorted({at.date() for _, _, at, _ in events})
    found: dict[str, list[tuple[Any, ...]]] = {
        "raw.cities": [(int(id_), name) for id_, name in names.items()],
        "staging.names": [(int(id_), name.upper()) for id_, name in names.items()],
        "bronze.events": [(id_, city, _time(at), amount) for id_, city, at, amount in landed],
        "silver.events": events,
        "gold.daily": [
            (day, len(amounts), sum(amounts))
            for day in days
            for amounts in [[amount for _, _, at, amount in events if at.date() == day]]
        ],
        "gold.totals": [
            (name.upper(), sum(amount for _, city, _, amount in events if city == name))
            for name in {city for _, city, _, _ in events}
        ],
    }
    return {table: sorted(made, key=repr) for table, made in found.items()}


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)

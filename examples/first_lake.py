"""A first lake: a branch, two tables, one atomic publish, time travel and a revert.

Run it with `make demo`. It leaves the lake in demo-lake/, to look at with the command line.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import mere

FOLDER = Path("demo-lake")


def step(text: str) -> None:
    print(f"\n── {text}", flush=True)


def show(lake: mere.Lake, sql: str, at: str = "main") -> None:
    print(f"   {at}> {sql}")
    for row in lake.sql(sql, at).rows():
        print("  ", *row)


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    lake = mere.Lake.create(FOLDER)
    revenue = "select day, revenue from gold.daily_revenue order by day"

    step("Spark writes two tables on main (the first start fetches jars and takes a while)")
    with mere.session(lake, "main") as session:
        spark = session.spark
        spark.sql("create namespace silver")
        spark.sql("create namespace gold")
        spark.sql("""create table silver.orders as select * from values (1, date'2026-11-01', 40.0),
            (2, date'2026-11-01', 2.5), (3, date'2026-11-02', 10.0) as t(id, day, amount)""")
        spark.sql("create table gold.daily_revenue as select day, sum(amount) revenue from silver.orders group by day")
        show(lake, revenue)

        step("A branch: both tables change there, and main does not see it")
        lake.branch("dev")
        session.use("dev")
        spark.sql("insert into silver.orders values (4, date'2026-11-02', 5.0), (5, date'2026-11-03', 99.0)")
        spark.sql("""insert overwrite gold.daily_revenue
            select day, sum(amount) revenue from silver.orders group by day""")
        show(lake, revenue, "dev")
        show(lake, revenue, "main")

    step("Publish: both tables move to main in one transaction, or neither does")
    commit = lake.publish("dev", message="orders of 2026-11-02 and 03").commit
    assert commit is not None
    for change in commit.changes:
        print(f"   {change.verb} {change.key}: {change.stats}")
    show(lake, revenue)

    step("Time travel: the whole lake one commit ago, all tables agreeing with each other")
    show(lake, revenue, "main~1")

    step("Revert: a new commit puts back what that one replaced")
    lake.revert(commit.id)
    show(lake, revenue)

    step("The log of main")
    for entry in lake.log():
        changed = ", ".join(str(change.key) for change in entry.changes)
        print(f"   {entry.short_id}  {entry.at:%H:%M:%SZ}  {entry.author or 'an engine'}: {entry.message}  [{changed}]")

    print(f'\nGo on: .venv/bin/mere --lake {FOLDER} log; .venv/bin/mere --lake {FOLDER} sql "{revenue}"')


if __name__ == "__main__":
    try:
        main()
    except mere.MereError as error:
        sys.exit(f"error: {error}")

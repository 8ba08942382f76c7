"""A year of trips as a table of a lake, built by mere: BENCH_SHARED/gateway. If it is asked for, in a Postgres as well,
and for Trino.

python gateway_prepare.py [--postgres] [--trino]
"""

from __future__ import annotations

import os
import sys
from datetime import date
from pathlib import Path

import duckdb
import psycopg
from pyiceberg.catalog.sql import SqlCatalog

import mere
from bench.sides import gateway
from bench.sides.answer import answer
from bench.sides.server import kept
from bench.sides.taxi import COLUMNS, shared, trips
from mere.cli import main
from tests.services.trino import installed

MONTHS = [date(2024, month, 1) for month in range(1, 13)]
MODEL = f"""\
-- partition_by: [month(picked_up_at)]
-- sort_by: [picked_up_at]
SELECT {", ".join(COLUMNS)} FROM landing.trips
"""
# What the machine has; the rest of its settings are Postgres's own.
POSTGRES = ("shared_buffers = '2GB'", "work_mem = '256MB'", "effective_cache_size = '6GB'")
POSTGRES_TABLE = f"""
    CREATE SCHEMA gold;
    CREATE TABLE {gateway.TABLE} (vendor_id integer, picked_up_at timestamp, dropped_off_at timestamp,
        passengers integer, distance numeric(8, 2), from_zone integer, to_zone integer, payment text,
        fare numeric(10, 2), tip numeric(10, 2), tolls numeric(10, 2));
"""


def write(folder: Path) -> list[str]:
    """The files of the table."""
    (folder / "models" / "gold").mkdir(parents=True)
    (folder / "mere.yaml").write_text("name: gateway\n", encoding="utf-8")
    (folder / "models" / "gold" / "trips.sql").write_text(MODEL, encoding="utf-8")
    os.chdir(folder)
    with mere.Lake.create(folder / "lake") as lake:
        catalog = lake.pyiceberg("main")
        catalog.create_namespace("landing")
        a_month = max(1, gateway.rows() // len(MONTHS))
        for number, month in enumerate(MONTHS):
            rows = duckdb.sql(trips(month.isoformat(), a_month, number * a_month)).to_arrow_table()
            catalog.create_table_if_not_exists("landing.trips", schema=rows.schema).append(rows)
        main(["run"], standalone_mode=False)
        table = catalog.load_table(gateway.TABLE)
        return sorted(task.file.file_path.removeprefix("file://") for task in table.scan().plan_files())


def asked(files: list[str]) -> gateway.Trips:
    """What will be asked of it."""
    table = duckdb.read_parquet(files)
    (until,) = table.query(
        "trips", f"SELECT picked_up_at FROM trips ORDER BY picked_up_at LIMIT 1 OFFSET {gateway.fetched()}"
    ).fetchall()[0]
    some = table.query(
        "trips",
        "SELECT DISTINCT picked_up_at, from_zone FROM trips ORDER BY hash(picked_up_at, from_zone) "
        f"LIMIT {gateway.WARM_UP + gateway.LOOK_UPS + gateway.CLIENTS * gateway.OF_EACH}",
    ).fetchall()
    return gateway.Trips(files, str(until), [(str(moment), zone) for moment, zone in some])


def fill_postgres(files: list[str]) -> None:
    """In the order of time, as the trips would have come, and with an index on it."""
    shared("").chmod(0o755)  # the server's own user must get there
    text = shared("trips.csv")
    duckdb.read_parquet(files).order("picked_up_at").select(*COLUMNS).write_csv(str(text), header=False)
    with kept(gateway.postgres_folder()) as url, psycopg.connect(url, autocommit=True) as connection:
        for setting in POSTGRES:
            connection.execute(f"ALTER SYSTEM SET {setting}")
        connection.execute(POSTGRES_TABLE)
        with text.open("rb") as lines, connection.cursor() as cursor:
            with cursor.copy(f"COPY {gateway.TABLE} FROM STDIN (FORMAT csv)") as copy:
                while piece := lines.read(1 << 20):
                    copy.write(piece)
        connection.execute(f"CREATE INDEX ON {gateway.TABLE} (picked_up_at)")
        connection.execute(f"VACUUM (ANALYZE, FREEZE) {gateway.TABLE}")
    text.unlink()


def register_in_trino(folder: Path) -> None:
    """The same files in a table that says file:// of each of them: of a path alone Trino does not know what it is."""
    installed()
    folder.mkdir()
    catalog = SqlCatalog("main", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    with mere.Lake.open(gateway.folder() / "lake") as lake:
        table = lake.pyiceberg("main").load_table(gateway.TABLE)
        catalog.create_namespace(gateway.TABLE.partition(".")[0])
        same = catalog.create_table(gateway.TABLE, table.schema(), None, table.spec(), table.sort_order())
        assert same.schema() == table.schema()  # the files name its columns by their ids
        with same.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            for task in table.scan().plan_files():
                # Its path, which PyIceberg gives no name to write to.
                task.file[1] = f"file://{task.file.file_path.removeprefix('file://')}"
                append.append_data_file(task.file)
    catalog.close()


files = write(gateway.folder())
asked(files).save()
if "--postgres" in sys.argv[1:]:
    fill_postgres(files)
if "--trino" in sys.argv[1:]:
    register_in_trino(gateway.trino_folder())
answer(len(files))

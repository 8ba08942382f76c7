"""The 265 taxi zones as a table of a lake and of a Postgres, where they have a primary key."""

from __future__ import annotations

import psycopg
import pyarrow as pa

import mere
from bench.sides import gateway
from bench.sides.answer import answer
from bench.sides.gateway_small import TABLE, ZONES
from bench.sides.server import kept
from bench.sides.taxi import shared

BOROUGHS = ("Bronx", "Brooklyn", "EWR", "Manhattan", "Queens", "Staten Island")
SERVICES = ("Boro Zone", "Yellow Zone", "Airports")

zones = [(at, BOROUGHS[at % 6], f"Zone {at}", SERVICES[at % 3]) for at in range(1, ZONES + 1)]
ids, boroughs, names, services = zip(*zones, strict=True)
rows = pa.table({"id": pa.array(ids, pa.int32()), "borough": boroughs, "zone": names, "service": services})

gateway.folder().mkdir()
with mere.Lake.create(gateway.folder() / "lake") as lake:
    catalog = lake.pyiceberg("main")
    catalog.create_namespace("gold")
    catalog.create_table(TABLE, schema=rows.schema).append(rows)

shared("").chmod(0o755)  # the server's own user must get there
with kept(gateway.postgres_folder()) as url, psycopg.connect(url, autocommit=True) as connection:
    connection.execute("CREATE SCHEMA gold")
    connection.execute(f"CREATE TABLE {TABLE} (id integer PRIMARY KEY, borough text, zone text, service text)")
    with connection.cursor() as cursor, cursor.copy(f"COPY {TABLE} FROM STDIN") as copy:
        for each in zones:
            copy.write_row(each)
    connection.execute(f"VACUUM (ANALYZE, FREEZE) {TABLE}")
answer(len(zones))

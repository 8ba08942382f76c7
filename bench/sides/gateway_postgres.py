"""The trips from Postgres, by psycopg: python gateway_postgres.py group_by|fetch."""

from __future__ import annotations

import sys

from bench.sides import gateway, gateway_client
from bench.sides.answer import answer
from bench.sides.server import kept

with kept(gateway.postgres_folder()) as url:
    match sys.argv[1]:
        case "group_by":
            result, times = gateway_client.group_by(url)
        case "fetch":
            result, times = gateway_client.fetch(url)
answer(result, **times)

"""The trips from Postgres, by psycopg: python gateway_postgres.py group_by|fetch|small."""

from __future__ import annotations

import sys

from bench.sides import gateway, gateway_client, gateway_small
from bench.sides.answer import answer
from bench.sides.server import kept

with kept(gateway.postgres_folder()) as url:
    match sys.argv[1]:
        case "group_by":
            result, times = gateway_client.group_by(url)
        case "fetch":
            result, times = gateway_client.fetch(url)
        case "small":
            result, times = gateway_small.small(url)
answer(result, **times)

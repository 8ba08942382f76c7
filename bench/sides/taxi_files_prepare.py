"""The files of trips and the lookup of zones, in BENCH_SHARED/taxi."""

from __future__ import annotations

from bench.sides.answer import answer
from bench.sides.taxi_files import folder, months, rows_a_month
from mere.generate.files import write
from mere.generate.taxi import Taxi

answer([each.name for each in write(Taxi(months(), rows_a_month()), folder())])

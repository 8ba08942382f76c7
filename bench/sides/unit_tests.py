"""Fifty small tests of five models: as cases of mere, and as functions of pytest written by hand."""

from __future__ import annotations

from pathlib import Path

from bench.sides.answer import sized

COUNT = sized(50)

_CLEAN = """SELECT id, lower(trim(status)) AS status, CAST(amount AS decimal(12, 2)) AS amount
FROM raw.orders WHERE amount IS NOT NULL"""
_JOIN = """SELECT o.id, coalesce(c.name, 'unknown') AS city, o.amount
FROM raw.orders AS o LEFT JOIN raw.cities AS c ON c.city_id = o.city_id"""
_DAILY = """SELECT day, count(*) AS orders, sum(amount) AS revenue
FROM raw.orders WHERE day >= {start} AND day < {end} GROUP BY day"""
_LATEST = """SELECT id, status, amount FROM (
  SELECT *, row_number() OVER (PARTITION BY id ORDER BY day DESC) AS rank FROM raw.orders
) WHERE rank = 1"""

_PYTHON = """from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mere import model, table


@model("gold.cities")
def cities(orders: DataFrame = table("raw.orders"), names: DataFrame = table("raw.cities")) -> DataFrame:
    return orders.join(names, "city_id").groupBy("name").agg(F.sum("amount").alias("amount"))
"""

_SEEDS = {
    "seeds/raw/orders.csv": "id,city_id,day,status,amount\n1,1,2024-01-01,open,1.0\n",
    "seeds/raw/orders.yaml": "types: {id: bigint, city_id: bigint, day: date, status: string, amount: double}\n",
    "seeds/raw/cities.csv": "city_id,name\n1,Bern\n",
    "seeds/raw/cities.yaml": "types: {city_id: bigint}\n",
}
_MODELS = {
    "models/silver/clean.sql": _CLEAN,
    "models/silver/joined.sql": _JOIN,
    "models/gold/daily.sql": "-- kind: incremental\n-- time_column: day\n" + _DAILY.format(start=":start", end=":end"),
    "models/silver/latest.sql": _LATEST,
    "models/gold/cities.py": _PYTHON,
}

Rows = list[tuple[object, ...]]


def orders(seed: int) -> Rows:
    """Four rows, two of which are of one order."""
    return [
        (1, 1, "2024-02-01", " Open", 10.0 + seed),
        (2, 2, "2024-02-01", "done", 20.0),
        (3, 9, "2024-02-02", "DONE ", float(seed)),
        (1, 1, "2024-02-03", "done", 12.0 + seed),
    ]


CITIES: Rows = [(1, "Bern"), (2, "Graz")]


def expected(kind: int, seed: int) -> tuple[str, str, Rows]:
    """The model, the columns, and the rows that it makes of `orders(seed)`."""
    found: list[tuple[str, str, Rows]] = [
        (
            "silver.clean",
            "id, status, amount",
            [(1, "open", 10 + seed), (2, "done", 20), (3, "done", seed), (1, "done", 12 + seed)],
        ),
        (
            "silver.joined",
            "id, city, amount",
            [(1, "Bern", 10.0 + seed), (2, "Graz", 20.0), (3, "unknown", float(seed)), (1, "Bern", 12.0 + seed)],
        ),
        (
            "gold.daily",
            "day, orders, revenue",
            [("2024-02-01", 2, 30.0 + seed), ("2024-02-02", 1, float(seed)), ("2024-02-03", 1, 12.0 + seed)],
        ),
        (
            "silver.latest",
            "id, status, amount",
            [(1, "done", 12.0 + seed), (2, "done", 20.0), (3, "DONE ", float(seed))],
        ),
        ("gold.cities", "name, amount", [("Bern", 22.0 + 2 * seed), ("Graz", 20.0)]),
    ]
    return found[kind]


def write_project(folder: Path) -> None:
    text = "name: bench\nprofiles: {local: {lake: lake}}\n"
    files = {"mere.yaml": text, **_SEEDS, **_MODELS, "tests/all.yaml": "".join(map(_case, range(COUNT)))}
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")


def _case(number: int) -> str:
    model, columns, rows = expected(number % 5, number)
    given = _listed(["id", "city_id", "day", "status", "amount"], orders(number), 6)
    cities = _listed(["city_id", "name"], CITIES, 6) if model in ("silver.joined", "gold.cities") else ""
    return (
        f"test_{number}:\n  model: {model}\n  given:\n    raw.orders:\n{given}"
        + (f"    raw.cities:\n{cities}" if cities else "")
        + f"  expect:\n{_listed(columns.split(', '), rows, 4)}"
    )


def _listed(columns: list[str], rows: Rows, indent: int) -> str:
    quoted = [
        [f'"{value}"' if value != str(value).strip() and isinstance(value, str) else value for value in row]
        for row in rows
    ]
    return "".join(
        f"{' ' * indent}- {{{', '.join(f'{name}: {value}' for name, value in zip(columns, row, strict=True))}}}\n"
        for row in quoted
    )


_BY_HAND = """import datetime

import pyarrow as pa

from models import cities

SQL = {queries!r}
ORDERS = pa.schema(
    {{"id": pa.int64(), "city_id": pa.int64(), "day": pa.date32(), "status": pa.string(), "amount": pa.float64()}}
)
CITIES = pa.schema({{"city_id": pa.int64(), "name": pa.string()}})


def frame_of(spark, schema, rows):
    # By Arrow: a list of rows would go through a process of Python, and take several times as long.
    return spark.createDataFrame(pa.table(list(zip(*rows)), schema=schema))


def rows_of(frame):
    return sorted(tuple(str(v) if isinstance(v, datetime.date) else v for v in row) for row in frame.collect())
"""


def write_by_hand(folder: Path) -> None:
    queries = {
        "silver.clean": _CLEAN,
        "silver.joined": _JOIN,
        "gold.daily": _DAILY.format(start="DATE '2024-02-01'", end="DATE '2024-02-04'"),
        "silver.latest": _LATEST,
    }
    # As one writes it by hand: the tables are temporary views, which have no schema.
    plain = {name: text.replace("raw.", "") for name, text in queries.items()}
    text = _BY_HAND.format(queries=plain)
    (folder / "test_models.py").write_text(text + "".join(map(_function, range(COUNT))), encoding="utf-8")
    (folder / "models.py").write_text(_PYTHON, encoding="utf-8")


def _function(number: int) -> str:
    model, _, rows = expected(number % 5, number)
    given = ", ".join(
        f"({id_}, {city}, datetime.date.fromisoformat({day!r}), {status!r}, {amount})"
        for id_, city, day, status, amount in orders(number)
    )
    lines = [f"frame = frame_of(spark, ORDERS, [{given}])"]
    if model in ("silver.joined", "gold.cities"):
        lines.append(f"names = frame_of(spark, CITIES, {CITIES!r})")
    if model == "gold.cities":
        lines.append("found = cities(frame, names)")
    else:
        lines.append('frame.createOrReplaceTempView("orders")')
        lines += ['names.createOrReplaceTempView("cities")'] if model == "silver.joined" else []
        lines.append(f"found = spark.sql(SQL[{model!r}])")
    lines.append(f"assert rows_of(found) == sorted({rows!r})")
    return f"\n\ndef test_{number}(spark):\n" + "".join(f"    {line}\n" for line in lines)

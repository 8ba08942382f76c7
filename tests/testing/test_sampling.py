"""Which rows of the inputs belong together."""

from __future__ import annotations

import pytest

from mere.names import TableName
from mere.project.graph import Graph
from mere.project.kinds import Kind
from mere.project.model import Input, Model, Python, Sql
from mere.testing.sampling import Join, Sample, columns_read, driving, joins_of, samples

ORDERS, CITIES, ITEMS = TableName("s", "orders"), TableName("s", "cities"), TableName("s", "items")
COLUMNS = {ORDERS: ("id", "city_id", "at"), CITIES: ("city_id", "name", "area"), ITEMS: ("order_id", "sku")}
EMPTY = Graph({})


def model(text: str, *tables: TableName) -> Model:
    return Model(TableName("g", "m"), Kind.FULL, "m.sql", Sql(text, 1), tuple(Input(each, 1) for each in tables))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 FROM s.orders AS o JOIN s.cities AS c ON c.city_id = o.city_id",
        "SELECT 1 FROM s.orders AS o LEFT JOIN s.cities AS c ON o.city_id = c.city_id AND c.area > 1",
        "SELECT 1 FROM s.orders JOIN s.cities USING (city_id)",
        "SELECT 1 FROM s.orders o, s.cities c WHERE o.city_id = c.city_id",
        "SELECT 1 FROM s.orders o, s.cities c WHERE (o.city_id) <=> c.city_id",
        "WITH x AS (SELECT id, city_id AS town FROM s.orders) SELECT 1 FROM x JOIN s.cities c ON x.town = c.city_id",
        "WITH x AS (SELECT * FROM s.orders) SELECT 1 FROM x JOIN s.cities c ON x.city_id = c.city_id",
        "SELECT 1 FROM (SELECT o.city_id AS a, c.city_id AS b FROM s.orders o, s.cities c) WHERE a = b",
        "SELECT 1 FROM s.orders JOIN s.cities ON orders.city_id = cities.city_id",
    ],
)
def test_joins_are_found_in_the_equalities_of_a_query(text: str) -> None:
    (join,) = joins_of(model(text, ORDERS, CITIES), EMPTY, COLUMNS)
    assert join in (Join(ORDERS, "city_id", CITIES, "city_id"), Join(CITIES, "city_id", ORDERS, "city_id"))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 FROM s.orders o, s.cities c WHERE o.city_id < c.city_id",
        "SELECT 1 FROM s.orders o, s.cities c WHERE upper(o.city_id) = c.city_id",
        "SELECT 1 FROM s.orders o, s.cities c WHERE EXISTS (SELECT 1 FROM s.items c WHERE c.city_id = o.city_id)",
        "SELECT 1 FROM s.orders o JOIN s.orders p ON o.id = p.id, s.cities",
        "WITH x AS (SELECT max(city_id) AS m FROM s.orders) SELECT 1 FROM x JOIN s.cities c ON x.m = c.city_id",
    ],
)
def test_what_is_no_equality_of_two_tables_columns_is_no_join(text: str) -> None:
    assert joins_of(model(text, ORDERS, CITIES), EMPTY, COLUMNS) == []


def test_rows_are_looked_up_along_the_joins_from_the_driving_table() -> None:
    joins = [Join(ITEMS, "order_id", ORDERS, "id"), Join(ORDERS, "city_id", CITIES, "city_id")]
    assert samples(model("", CITIES, ITEMS, ORDERS), joins) == [
        Sample(CITIES),
        Sample(ORDERS, CITIES, (("city_id", "city_id"),)),
        Sample(ITEMS, ORDERS, (("order_id", "id"),)),
    ]


def test_a_table_that_joins_nothing_is_sampled_by_itself() -> None:
    assert samples(model("", ORDERS, CITIES), []) == [Sample(ORDERS), Sample(CITIES)]


def test_the_input_that_is_read_by_time_drives() -> None:
    timed = Model(
        *(TableName("g", "m"), Kind.INCREMENTAL, "m.sql", Sql("", 1)),
        inputs=(Input(CITIES, 1), Input(ORDERS, 1, time="at")),
    )
    assert driving(timed) == ORDERS


def test_what_a_function_joins_is_guessed_by_keys() -> None:
    body = Python("m", 1, (("orders", ORDERS), ("cities", CITIES)), "")
    made = Model(TableName("g", "m"), Kind.FULL, "m.py", body, (Input(ORDERS, 1), Input(CITIES, 1)))
    columns = {ORDERS: ("city_id", "name"), CITIES: ("city_id", "name")}
    keyed = Graph({CITIES: Model(CITIES, Kind.FULL, "c.sql", Sql("", 1), key=("city_id",))})
    assert joins_of(made, keyed, columns) == [Join(CITIES, "city_id", ORDERS, "city_id")]
    assert len(joins_of(made, EMPTY, columns)) == 2


def test_only_columns_that_the_query_names_are_written() -> None:
    text = "SELECT count(*) AS n, name FROM s.orders JOIN s.cities USING (city_id) GROUP BY name"
    read = columns_read(model(text, ORDERS, CITIES), {ORDERS: COLUMNS[ORDERS], CITIES: COLUMNS[CITIES]})
    assert read == {ORDERS: ["city_id"], CITIES: ["city_id", "name"]}
    everything = columns_read(model("SELECT * FROM s.orders", ORDERS), {ORDERS: COLUMNS[ORDERS]})
    assert everything == {ORDERS: ["id", "city_id", "at"]}

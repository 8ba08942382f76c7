"""Every user at every ref, table and verb, through every door: nothing is seen or written that the role does not say.

What a table holds is told by words that stand in its rows and properties, so that they are found in whatever comes
back. What may come is said here once more, without the code that decides it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import psycopg
import pyarrow as pa
import pytest
import requests
from adbc_driver_flightsql import DatabaseOptions

from mere.lake.lake import Lake
from mere.lake.metadata_tables.tables import OF_LAKE, OF_TABLE
from mere.serve.flight.server import FlightEndpoint
from mere.serve.http.server import HttpEndpoint
from mere.serve.iceberg.routes import mounted
from mere.serve.session.backend import LakeBackend
from tests.lake import orders
from tests.serve.iceberg.rest import roles
from tests.serve.served import served

ROLES = """
roles:
  all: {tables: "*", write: {refs: "*", schemas: "*"}}
  reader: {tables: "*", refs: [main, v1], history: false}
  part:
    tables: gold.*
    refs: [main, dev]
    columns: {gold.customers: [id, country]}
    rows: {gold.orders: region = 'AT'}
    write: {refs: ["*"], schemas: ["*"]}
  writer:
    tables: [sandbox.*, gold.open]
    refs: [main, dev]
    write: {refs: [dev, "x*"], schemas: [sandbox, gold], publish: [main]}
"""
USERS = ("all", "reader", "part", "writer", "nobody")
REFS = ("main", "dev", "secret", "v1", "main~1", "COMMIT")
TABLES: dict[str, dict[str, list[Any]]] = {
    "gold.orders": {"id": [1, 2], "region": ["AT", "BE"], "note": ["word-orders-at", "word-orders-be"]},
    "gold.customers": {"id": [1], "country": ["word-customers-country"], "name": ["word-customers-name"]},
    "gold.open": {"id": [1], "note": ["word-open"]},
    "hr.salaries": {"id": [1], "note": ["word-hr"]},
    "sandbox.mine": {"id": [1], "note": ["word-mine"]},
}
WORDS = re.compile(r"word-[a-z-]+")


def seen(user: str, ref: str, table: str) -> set[str]:
    """The words of a table's rows that a user may see at a ref."""
    words = {value for values in TABLES[table].values() for value in values if isinstance(value, str)}
    words = {word for word in words if word.startswith("word-")}
    if user == "all":
        return words
    if user == "reader":
        return words if ref in ("main", "v1") else set()
    if user == "part" and ref in ("main", "dev"):
        return words - {"word-orders-be", "word-customers-name"} if table.startswith("gold.") else set()
    if user == "writer" and ref in ("main", "dev", "main~1"):
        return words if table in ("sandbox.mine", "gold.open") else set()
    return set()


def in_files(user: str, ref: str, table: str) -> bool:
    """Whether all of it is seen: then its files are, too."""
    return seen(user, ref, table) == seen("all", ref, table)


def writes(user: str, ref: str, table: str) -> bool:
    if ref not in ("dev", "secret"):
        return False
    if user == "part":
        return ref == "dev" and table == "gold.open"
    return user == "all" or (user == "writer" and ref == "dev" and table in ("sandbox.mine", "gold.open"))


@dataclass
class Doors:
    lake: Lake
    commit: str
    rest: str
    wire: int
    flight: int

    def at(self, ref: str) -> str:
        return self.commit if ref == "COMMIT" else ref

    def heads(self) -> dict[str, int]:
        return {ref.name: ref.head for ref in self.lake.refs()}


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with Lake.create(tmp_path_factory.mktemp("matrix") / "lake") as lake:
        for name, columns in TABLES.items():
            orders.write(lake, name, pa.table(columns))
            with lake.pyiceberg("main").load_table(name).transaction() as change:
                change.set_properties(note=f"word-property-of-{name.replace('.', '-')}")
        lake.branch("dev")
        lake.branch("secret")
        lake.tag("v1")
        declared = roles(ROLES)
        http, flight = HttpEndpoint([mounted(lake)], None, declared), FlightEndpoint(LakeBackend(lake, declared), None)
        with served(LakeBackend(lake, declared), beside=[http, flight]) as running:
            uri = f"http://127.0.0.1:{http.port}/iceberg/v1"
            yield Doors(lake, lake.resolve("main").commit.id, uri, running.port, flight.port)


# Reading rows


def over_the_wire(doors: Doors, user: str, ref: str, sql: str) -> str:
    parts = {"host": "127.0.0.1", "port": doors.wire, "user": user, "dbname": doors.at(ref)}
    with psycopg.connect(**parts, autocommit=True) as connection:  # type: ignore[arg-type]
        return str(connection.execute(sql).fetchall())


def over_flight(doors: Doors, user: str, ref: str, sql: str) -> str:
    options = {f"{DatabaseOptions.RPC_CALL_HEADER_PREFIX.value}database": doors.at(ref), "username": user}
    uri = f"grpc://127.0.0.1:{doors.flight}"
    with adbc.connect(uri, db_kwargs={**options, "password": ""}, autocommit=True) as connection:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return str(cursor.fetch_arrow_table().to_pylist())


STATEMENTS = (
    "select * from {table}",
    "select array_agg(t) from {table} t",
    "select count(*), min(note), max(note) from (select * from {table}) t",
    "select name from {table}",
    "select relname, reltuples from pg_catalog.pg_class where relname = '{name}'",
    "insert into {table} select * from {table}",
    "delete from {table}",
    "drop table {table}",
    "create table sandbox.copied as select * from {table}",
    "select * from mere_files('{table}')",
    "copy {table} to stdout",
)


def check_reading(doors: Doors, users: tuple[str, ...], refs: tuple[str, ...], statements: tuple[str, ...]) -> None:
    before, wrong, found = doors.heads(), [], set()
    for way in (over_the_wire, over_flight):
        for user in users:
            for ref in refs:
                for table in TABLES:
                    for statement in statements:
                        sql = statement.format(table=table, name=table.partition(".")[2])
                        try:
                            told = way(doors, user, ref, sql)
                        except (psycopg.Error, adbc.Error) as error:
                            told = str(error)
                        words = set(WORDS.findall(told))
                        found |= words
                        allowed = seen(user, ref, table)
                        if not words <= allowed or (statement == STATEMENTS[0] and words != allowed):
                            wrong.append((way.__name__, user, ref, sql, words, allowed))
    assert wrong == []
    assert found  # what may be seen was
    assert doors.heads() == before


def test_rows_are_seen_by_those_who_may_see_them(doors: Doors) -> None:
    check_reading(doors, ("part", "writer", "nobody"), ("main", "secret"), STATEMENTS[:1])


@pytest.mark.long
def test_no_statement_shows_or_writes_more(doors: Doors) -> None:
    check_reading(doors, USERS, REFS, STATEMENTS)


# What the past and the files tell

# With the ref whose rights hold for it, on a connection to main.
OTHERS = (
    ("select * from secret.{table}", "secret"),
    ("select * from dev.{table}", "dev"),
    ("select * from {table} for version as of 'v1'", "v1"),
    ('select * from "main~1".{table}', "main~1"),
    ("select * from {table} for timestamp as of '0s'", "main~1"),
    ("select * from {table} for version as of {snapshot}", "main~1"),
)


def reads_files(user: str, table: str) -> bool:
    """Of the present on main: all of the table, and the past."""
    return user in ("all", "writer") and in_files(user, "main", table)


def check_past(
    doors: Doors, users: tuple[str, ...], ways: tuple[Callable[..., str], ...], kinds: tuple[str, ...]
) -> None:
    wrong: list[object] = []
    for way in ways:
        for user in users:
            for table in TABLES:
                schema, _, name = table.partition(".")
                snapshot = doors.lake.show(table).snapshots[0].id
                for statement, ref in OTHERS:
                    sql = statement.format(table=table, snapshot=snapshot)
                    if set(WORDS.findall(_told(doors, way, user, sql))) != seen(user, ref, table):
                        wrong.append((way.__name__, user, sql))
                for kind in kinds:
                    told = _told(doors, way, user, f'select * from {schema}."{name}${kind}"')
                    if told.startswith("refused: ") == reads_files(user, table):
                        wrong.append((way.__name__, user, table, kind, told))
                    if WORDS.search(told) and not reads_files(user, table):
                        wrong.append((way.__name__, user, table, kind, told))
                for own in OF_LAKE:
                    told = _told(doors, way, user, f"select * from mere.{own}")
                    if name in told and not reads_files(user, table):
                        wrong.append((way.__name__, user, table, own))
                    if own == "changes" and user in ("all", "writer") and (name in told) != reads_files(user, table):
                        wrong.append((way.__name__, user, table, own))
    assert wrong == []


def _told(doors: Doors, way: Callable[..., str], user: str, sql: str) -> str:
    try:
        return way(doors, user, "main", sql)
    except (psycopg.Error, adbc.Error) as error:
        return f"refused: {error}".replace(sql, "")


def test_the_past_and_the_files_tell_no_more_than_the_role_reads(doors: Doors) -> None:
    check_past(doors, ("part", "writer", "reader"), (over_the_wire,), ("files",))


@pytest.mark.long
def test_the_past_and_the_files_tell_nobody_more_through_any_door(doors: Doors) -> None:
    check_past(doors, USERS, (over_the_wire, over_flight), OF_TABLE)


# Over REST

Verb = Callable[[str], tuple[str, str, Any]]  # of a table: the method, what is asked for, and with what


def _at(table: str, rest: str = "", kind: str = "tables") -> str:
    namespace, _, name = table.partition(".")
    return f"namespaces/{namespace}/{kind}/{name}{rest}"


def _identified(table: str) -> dict[str, object]:
    namespace, _, name = table.partition(".")
    return {"namespace": [namespace], "name": name}


SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
PROPERTY = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"told": "x"}}]}
VIEW: dict[str, object] = {
    "name": "shown",
    "schema": SCHEMA,
    "view-version": {
        "version-id": 1,
        "timestamp-ms": 1,
        "schema-id": 0,
        "summary": {},
        "default-namespace": ["hr"],
        "representations": [{"type": "sql", "sql": "SELECT id FROM hr.salaries", "dialect": "spark"}],
    },
    "properties": {},
}
READING: dict[str, Verb] = {
    "load": lambda table: ("GET", _at(table), None),
    "exists": lambda table: ("HEAD", _at(table), None),
    "credentials": lambda table: ("GET", _at(table, "/credentials"), None),
    "metrics": lambda table: ("POST", _at(table, "/metrics"), {"report-type": "scan-report"}),
}
WRITING: dict[str, Verb] = {
    "commit": lambda table: ("POST", _at(table), PROPERTY),
    "transaction": lambda table: (
        "POST", "transactions/commit", {"table-changes": [{"identifier": _identified(table), **PROPERTY}]},
    ),
}  # fmt: skip
# Those that leave something else behind are tried by those who may not.
DESTROYING: dict[str, Verb] = {
    "drop": lambda table: ("DELETE", _at(table), None),
    "purge": lambda table: ("DELETE", _at(table, "?purgeRequested=true"), None),
    "rename": lambda table: (
        "POST", "tables/rename", {"source": _identified(table), "destination": _identified("sandbox.stolen")},
    ),
    "rename to": lambda table: (
        "POST", "tables/rename", {"source": _identified("sandbox.mine"), "destination": _identified(f"{table}x")},
    ),
    "two at once": lambda table: (
        "POST",
        "transactions/commit",
        {"table-changes": [{"identifier": _identified(each), **PROPERTY} for each in ("sandbox.mine", table)]},
    ),
    "create": lambda table: (
        "POST", _at(table).rpartition("/")[0], {"name": f"{table.partition('.')[2]}x", "schema": SCHEMA},
    ),
    "drop namespace": lambda table: ("DELETE", f"namespaces/{table.partition('.')[0]}", None),
    "namespace": lambda table: ("POST", f"namespaces/{table.partition('.')[0]}/properties", {"updates": {"a": "b"}}),
    "create namespace": lambda table: ("POST", "namespaces", {"namespace": [f"{table.partition('.')[0]}x"]}),
}  # fmt: skip


def check_rest(doors: Doors, users: tuple[str, ...], refs: tuple[str, ...]) -> None:
    wrong, found = [], set()
    with requests.Session() as session:
        for user in users:
            for ref in refs:
                for table in TABLES:
                    for name, verb in (READING | WRITING | DESTROYING).items():
                        expected = _expected(user, ref, table, name)
                        if expected is None:
                            continue
                        method, path, body = verb(table)
                        before = doors.heads()
                        answer = session.request(
                            method, f"{doors.rest}/{doors.at(ref)}/{path}", json=body, auth=(user, ""), timeout=60
                        )
                        words = set(WORDS.findall(answer.text))
                        found |= words
                        moved = doors.heads() != before
                        fine = answer.status_code < 300 if expected else answer.status_code in (400, 403, 404)
                        leaks = words if not in_files(user, ref, table) else set()
                        if not fine or leaks or (moved and not (expected and name in WRITING)):
                            wrong.append((user, ref, table, name, expected, answer.status_code, answer.text[:200]))
    assert wrong == []
    assert found or users == ("nobody",)


def _expected(user: str, ref: str, table: str, verb: str) -> bool | None:
    """Whether it is allowed; None: it is, and is not to be done here."""
    if verb in READING:
        return in_files(user, ref, table)
    if verb in WRITING:
        return writes(user, ref, table)
    may = user == "all" if verb != "rename to" else user in ("all", "part")
    schema_too = (user == "writer" and table.startswith(("sandbox.", "gold."))) or user == "part"
    return None if ref in ("dev", "secret") and (may or schema_too) else False


def test_rest_gives_and_takes_what_the_role_says(doors: Doors) -> None:
    check_rest(doors, ("part", "writer"), ("dev", "main"))


@pytest.mark.long
def test_rest_gives_and_takes_nothing_else_from_anybody_anywhere(doors: Doors) -> None:
    check_rest(doors, USERS, REFS)


def test_what_leads_to_other_tables_is_for_those_who_read_everything(doors: Doors) -> None:
    """A view, a registered file, and a snapshot that lists the files of another table."""
    salaries = doors.lake.at("dev").metadata("hr.salaries")
    listed = salaries.raw["snapshots"][-1]
    stolen = {
        "requirements": [],
        "updates": [
            {"action": "add-snapshot", "snapshot": {**listed, "snapshot-id": 7, "sequence-number": 9}},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7},
        ],
    }
    everything, elsewhere = "does not read everything", "is not in the folder of sandbox.mine"
    asked: list[tuple[str, Any, str]] = [
        ("namespaces/sandbox/views", VIEW, everything),
        ("namespaces/sandbox/register", {"name": "stolen", "metadata-location": salaries.location}, everything),
        ("namespaces/sandbox/tables/mine", stolen, elsewhere),
        ("transactions/commit", {"table-changes": [{"identifier": _identified("sandbox.mine"), **stolen}]}, elsewhere),
    ]
    before = doors.heads()
    for path, body, reason in asked:
        answer = requests.post(f"{doors.rest}/dev/{path}", json=body, auth=("writer", ""), timeout=60)
        assert (answer.status_code, reason in answer.text) == (403 if "everything" in reason else 400, True), (
            answer.text
        )
        assert not WORDS.findall(answer.text)
    assert doors.heads() == before
    with pytest.raises(psycopg.Error):
        over_the_wire(doors, "writer", "dev", "select * from sandbox.stolen")


# Bodies that are none

VALID: dict[str, tuple[str, Any]] = {
    "create": ("namespaces/sandbox/tables", {"name": "fuzzed", "schema": SCHEMA, "properties": {"a": "b"}}),
    "commit": (
        "namespaces/sandbox/tables/mine",
        {
            "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1}],
            "updates": [
                {"action": "add-schema", "schema": SCHEMA, "last-column-id": 1},
                {"action": "set-properties", "updates": {"a": "b"}},
                {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
                {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": []}},
                {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1},
                {"action": "remove-snapshots", "snapshot-ids": [1]},
            ],
        },
    ),
    "snapshot": (
        "namespaces/sandbox/tables/mine",
        {
            "requirements": [{"type": "assert-create"}, {"type": "assert-table-uuid", "uuid": "x"}],
            "updates": [
                {
                    "action": "add-snapshot",
                    "snapshot": {
                        "snapshot-id": 7,
                        "parent-snapshot-id": 6,
                        "sequence-number": 2,
                        "timestamp-ms": 1,
                        "manifest-list": "/nowhere",
                        "summary": {"operation": "append"},
                        "schema-id": 0,
                    },
                },
                {"action": "set-location", "location": "file:///x"},
                {"action": "remove-properties", "removals": ["a"]},
                {"action": "assign-uuid", "uuid": "0198c0de-0000-7000-8000-000000000001"},
            ],
        },
    ),
    "two": (
        "transactions/commit",
        {
            "table-changes": [
                {"identifier": _identified("sandbox.mine"), **PROPERTY},
                {"identifier": _identified("gold.open"), "updates": [{"action": "add-snapshot", "snapshot": {"a": 1}}]},
            ]
        },
    ),
    "transaction": (
        "transactions/commit",
        {"table-changes": [{"identifier": _identified("sandbox.mine"), "requirements": [], "updates": []}]},
    ),
    "rename": ("tables/rename", {"source": _identified("sandbox.mine"), "destination": _identified("gold.orders")}),
    "namespace": ("namespaces", {"namespace": ["gold"], "properties": {"a": "b"}}),
    "properties": ("namespaces/sandbox/properties", {"removals": ["nix"], "updates": {}}),
    "register": ("namespaces/sandbox/register", {"name": "r", "metadata-location": "file:///x"}),
    "view": ("namespaces/sandbox/views", VIEW),
    "sign": ("namespaces/sandbox/tables/mine/sign", {"method": "GET", "uri": "http://h/x", "headers": {"a": ["b"]}}),
    "metrics": ("namespaces/sandbox/tables/nix/metrics", {"report-type": "scan-report"}),
}
WRONG: tuple[Any, ...] = (None, 1, -1.5, "", "x" * 10_000, [], {}, [[]], [None], {"": None}, True, 2**70, "\x00")


def mistyped(value: Any) -> Iterator[Any]:
    """The same with one place in it replaced, or left out."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {name: each for name, each in value.items() if name != key}
            for wrong in (*WRONG, *mistyped(inner)):
                yield {**value, key: wrong}
    if isinstance(value, list):
        for at, inner in enumerate(value):
            for wrong in (*WRONG, *mistyped(inner)):
                yield [*value[:at], wrong, *value[at + 1 :]]


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long) for name in VALID])
def test_no_mistyped_body_is_more_than_a_client_s_mistake(doors: Doors, name: str) -> None:
    check_mistyped(doors, name, 1)


def test_a_few_mistyped_bodies_of_each_kind_are_a_client_s_mistake(doors: Doors) -> None:
    for name in VALID:
        check_mistyped(doors, name, 29)


def check_mistyped(doors: Doors, name: str, every: int) -> None:
    """On the tag, which nobody writes, all is refused; on a branch some of it is right by chance."""
    path, valid = VALID[name]
    doors.lake.branch("fuzzed")
    wrong = []
    try:
        with requests.Session() as session:
            session.auth = ("all", "")
            for number, body in enumerate(mistyped(valid)):
                if number % every:
                    continue
                answer = session.post(f"{doors.rest}/fuzzed/{path}", data=json.dumps(body), timeout=60)
                if answer.status_code >= 500:
                    wrong.append((answer.status_code, body))
    finally:
        doors.lake.delete("fuzzed")
    assert wrong == []

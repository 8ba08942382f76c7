"""Arrow Flight SQL, as the ADBC driver and pyarrow speak it: the same lake, users, roles and pins."""

from __future__ import annotations

import base64
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import pyarrow as pa
import pytest
import trustme
from adbc_driver_flightsql import DatabaseOptions
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import flight

from mere.lake.lake import Lake
from mere.serve.access.users import Users
from mere.serve.flight import messages
from mere.serve.flight.login import Login
from mere.serve.flight.messages import CommandStatementQuery, TicketStatementQuery, pack
from mere.serve.flight.seals import Handle, Seals
from mere.serve.flight.server import FlightEndpoint
from mere.serve.postgres.server import Server, Settings
from mere.serve.postgres.startup import Policy
from mere.serve.protocol.port import PgError
from mere.serve.session.backend import LakeBackend
from mere.serve.session.log import Log
from tests.lake import orders
from tests.serve import shop
from tests.serve.asking import declared
from tests.serve.hostile import HOSTILE
from tests.serve.served import Served, eventually

ROLES = declared(
    {
        "analyst": {
            "refs": ["main"],
            "tables": ["gold.*"],
            "columns": {"gold.customers": ["country"]},
            "rows": {"gold.orders": "customer = current_user"},
            "max_rows": 100_000,
        },
        "all": {"tables": "*"},
    },
    {"ann": "analyst", "root": "all"},
)


class Place:
    """A gateway with Flight beside it."""

    def __init__(self, served: Served, endpoint: FlightEndpoint, log: io.StringIO) -> None:
        self.served = served
        self.port = endpoint.port
        self.endpoint = endpoint
        self.log = log

    def connect(self, database: str = "main", user: str = "root", password: str = "", **more: Any) -> Any:
        options = {f"{DatabaseOptions.RPC_CALL_HEADER_PREFIX.value}database": database}
        if user:
            options |= {"username": user, "password": password}
        autocommit = more.pop("autocommit", True)
        uri = more.pop("uri", f"grpc://127.0.0.1:{self.port}")
        return adbc.connect(uri, db_kwargs=options | more, autocommit=autocommit)

    def client(self, **more: Any) -> Any:
        return flight.connect(f"grpc://127.0.0.1:{self.port}", **more)


@contextmanager
def place(
    backend: LakeBackend, users: Users | None = None, certificate: tuple[bytes, bytes] | None = None, **settings: Any
) -> Iterator[Place]:
    endpoint = FlightEndpoint(backend, users, certificate=certificate)
    log = io.StringIO()
    served = Served(Server(backend, Policy(users), Settings(**settings), Log(log), beside=[endpoint]))
    served.start()
    try:
        yield Place(served, endpoint, log)
    finally:
        served.stop()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with shop.create(tmp_path_factory.mktemp("flight")) as lake:
        orders.write(lake, "gold.customers", orders.CUSTOMERS)
        orders.write(lake, "bronze.raw", orders.CUSTOMERS)
        lake.branch("dev")
        yield lake


@pytest.fixture(scope="module")
def here(lake: Lake) -> Iterator[Place]:
    with place(LakeBackend(lake, ROLES)) as found:
        yield found


def fetch(place: Place, sql: str, *values: Any, **connection: Any) -> pa.Table:
    with place.connect(**connection) as opened, opened.cursor() as cursor:
        cursor.execute(sql, values or None)
        return cursor.fetch_arrow_table()


def fetch_with(client: Any, sql: str, user: str = "root") -> pa.Table:
    """By pyarrow itself."""
    options = flight.FlightCallOptions(headers=[login(user)])
    descriptor = flight.FlightDescriptor.for_command(pack(CommandStatementQuery(sql)))
    return client.do_get(client.get_flight_info(descriptor, options).endpoints[0].ticket, options).read_all()


# Queries


def test_a_query_is_answered_in_arrows_own_types(here: Place) -> None:
    found = fetch(
        here,
        "select 1::int as i, 2::bigint as b, 'x' as t, 1.50::numeric(10,2) as n, date '2024-02-29' as d,"
        " timestamptz '2024-01-01 00:00:00+00' as z, array[1, null] as l, null::text as nothing",
    )
    assert found.schema.types == [
        pa.int32(), pa.int64(), pa.string(), pa.decimal128(10, 2), pa.date32(), pa.timestamp("us", "UTC"),
        pa.list_(pa.int32()), pa.string(),
    ]  # fmt: skip
    assert found.to_pylist() == [
        {
            "i": 1, "b": 2, "t": "x", "n": Decimal("1.50"), "d": date(2024, 2, 29),
            "z": datetime(2024, 1, 1, tzinfo=UTC), "l": [1, None], "nothing": None,
        }
    ]  # fmt: skip


def test_tables_are_read_and_joined(here: Place) -> None:
    sql = "select o.id, o.line, c.country from gold.orders o join gold.customers c on c.name = o.customer order by 1, 2"
    found = fetch(here, sql)
    assert found.to_pylist()[0] == {"id": 1, "line": 1, "country": "AT"}
    assert found.num_rows == 3
    assert fetch(here, "select * from gold.orders where false").schema.names[:3] == ["id", "line", "customer"]
    assert fetch(here, "select 1 as a, 2 as a").schema.names == ["a", "a"]
    assert fetch(here, "show TimeZone").to_pylist() == [{"TimeZone": "UTC"}]


def test_parameters_have_the_types_of_their_values_or_of_their_place(here: Place) -> None:
    with here.connect() as connection, connection.cursor() as cursor:

        def ask(sql: str, *values: Any) -> list[Any]:
            cursor.execute(sql, values)
            return [tuple(row) for row in cursor.fetchall()]

        assert ask("select line from gold.orders where id = $1 and customer = $2 order by 1", 1, "ann") == [(1,), (2,)]
        assert ask("select count(*) from gold.orders where day > $1 or id > $2", "2024-01-01", 1) == [(1,)]
        assert ask("select $1 + 1, $2 || 'y', $3::date", 41, "x", date(2024, 1, 2)) == [(42, "xy", date(2024, 1, 2))]
        assert ask("select $1::numeric(10,2), $2::bytea, $3::float8", Decimal("1.5"), b"\0", None) == [
            (Decimal("1.50"), b"\0", None)
        ]
        assert ask("select $1 as n", Decimal("1.5")) == [(Decimal("1.5"),)]
        assert ask("select id from gold.orders where id = any($1) group by 1", [2, 3]) == [(2,)]
        # The same statement again, with another value.
        assert [ask("select $1::int", number) for number in (1, 2)] == [[(1,)], [(2,)]]
        with pytest.raises(adbc.Error, match="22007"):
            ask("select count(*) from gold.orders where day > $1", "someday")


def test_a_statement_takes_one_row_of_parameters(here: Place) -> None:
    with here.connect() as connection, connection.cursor() as cursor:
        with pytest.raises(adbc.Error, match="one row of parameters"):
            cursor.execute("select $1::int", pa.record_batch({"p": [1, 2]}))
        with pytest.raises(adbc.Error, match="08P01: there are 2 parameters, but 1 values"):
            cursor.execute("select $1::int + $2::int", (1,))
        with pytest.raises(adbc.Error, match="Send it as a JSON text"):
            cursor.execute("select $1", pa.record_batch({"p": [{"a": 1}]}))


def test_what_a_statement_takes_and_gives_is_known_before_it_runs(here: Place) -> None:
    with here.connect() as connection, connection.cursor() as cursor:
        taken = cursor.adbc_prepare("select id, $1::text as t from gold.orders where line = $2 and day = $3")
        assert taken is not None
        assert taken.types == [pa.string(), pa.int32(), pa.date32()]
        given = cursor.adbc_execute_schema("select id, customer from gold.orders")
        assert given == pa.schema({"id": pa.int64(), "customer": pa.string()})


def test_a_long_result_comes_in_batches(here: Place) -> None:
    with here.connect() as connection, connection.cursor() as cursor:
        cursor.execute("select i, repeat('x', 100) as t from generate_series(1, 200000) as g(i)")
        reader = cursor.fetch_record_batch()
        sizes = [batch.num_rows for batch in reader]
    assert sum(sizes) == 200_000
    assert max(sizes) < 50_000


def test_long_texts_stay_within_what_clients_take_at_once(here: Place) -> None:
    found = fetch(here, "select i, repeat('x', 10000) as t from generate_series(1, 4000) as g(i)")
    assert found.num_rows == 4000
    assert max(chunk.nbytes for chunk in found["t"].chunks) < 4_000_000


# Refs, commits


def test_the_database_is_the_ref(lake: Lake, here: Place) -> None:
    orders.write(lake, "silver.of_dev", orders.CUSTOMERS, ref="dev")
    assert fetch(here, "select * from silver.of_dev", database="dev").num_rows == 2
    with pytest.raises(adbc.Error, match=r'42P01: relation "silver\.of_dev" does not exist'):
        fetch(here, "select * from silver.of_dev")
    with pytest.raises(adbc.Error, match='3D000: database "nowhere" does not exist'):
        fetch(here, "select 1", database="nowhere")
    before = f"main@{lake.resolve('main').commit.at.isoformat()}"
    assert fetch(here, "select current_database() as d", database=before).to_pylist() == [{"d": before}]


def test_a_statement_reads_the_commit_at_which_it_was_asked(lake: Lake, here: Place) -> None:
    orders.write(lake, "silver.growing", orders.CUSTOMERS)
    client = here.client()
    options = flight.FlightCallOptions(headers=[login("root")])
    descriptor = flight.FlightDescriptor.for_command(pack(CommandStatementQuery("select * from silver.growing")))
    ticket = client.get_flight_info(descriptor, options).endpoints[0].ticket
    orders.write(lake, "silver.growing", orders.CUSTOMERS)
    assert client.do_get(ticket, options).read_all().num_rows == 2
    assert fetch(here, "select * from silver.growing").num_rows == 4
    assert client.do_get(ticket, options).read_all().num_rows == 2
    client.close()


def test_a_transaction_stays_at_the_commit_of_its_first_statement(lake: Lake, here: Place) -> None:
    orders.write(lake, "silver.seen", orders.CUSTOMERS)
    with here.connect(autocommit=False) as connection, connection.cursor() as cursor:

        def count(alias: str) -> Any:
            cursor.execute(f"select count(*) as {alias}, mere_commit() as at from silver.seen")
            return cursor.fetchone()

        orders.write(lake, "silver.seen", orders.CUSTOMERS)  # before its first statement
        first = count("a")
        orders.write(lake, "silver.seen", orders.CUSTOMERS)
        assert first[0] == 4
        assert count("b") == first
        connection.commit()
        assert count("c")[0] == 6


# Who, and what


def test_the_catalogs_are_those_of_the_ref(here: Place) -> None:
    with here.connect() as connection:
        (main,) = connection.adbc_get_objects(depth="all", catalog_filter="main").read_all().to_pylist()
        assert main["catalog_name"] == "main"
        schemas = {each["db_schema_name"]: each["db_schema_tables"] for each in main["catalog_db_schemas"]}
        assert {"gold", "silver", "bronze"} <= set(schemas)
        assert not {"pg_catalog", "information_schema"} & set(schemas)
        tables = {each["table_name"]: each for each in schemas["gold"]}
        assert {name: each["table_type"] for name, each in tables.items()} == {
            "orders": "TABLE", "customers": "TABLE", "totals": "VIEW",
        }  # fmt: skip
        assert [each["column_name"] for each in tables["customers"]["table_columns"]] == ["name", "country"]
        assert connection.adbc_get_table_types() == ["TABLE", "VIEW"]
        only = connection.adbc_get_objects(depth="tables", db_schema_filter="si%", table_name_filter="kinds")
        assert "kinds" in str(only.read_all())
        assert connection.adbc_get_table_schema("orders", db_schema_filter="gold").names[:2] == ["id", "line"]
        with pytest.raises(adbc.Error):
            connection.adbc_get_table_schema("missing")
        assert connection.adbc_get_info()["vendor_name"] == "mere"
        names = connection.adbc_get_objects(depth="catalogs").read_all()["catalog_name"].to_pylist()
        assert names == ["dev", "main"]


def test_a_key_is_told(here: Place) -> None:
    client = here.client()
    options = flight.FlightCallOptions(headers=[login("root")])
    command = pack(messages.CommandGetPrimaryKeys(table="orders", db_schema="gold"))
    found = client.do_get(flight.Ticket(command), options).read_all().to_pylist()
    assert [(each["column_name"], each["key_sequence"]) for each in found] == [("id", 1), ("line", 2)]
    client.close()


def test_a_role_reads_what_it_may_and_sees_nothing_else(here: Place) -> None:
    ann = {"user": "ann"}
    assert fetch(here, "select distinct customer from gold.orders", **ann).to_pylist() == [{"customer": "ann"}]
    assert fetch(here, "select * from gold.customers", **ann).schema.names == ["country"]
    for sql in ("select * from bronze.raw", "select name from gold.customers", "explain select * from gold.orders"):
        with pytest.raises(adbc.Error):
            fetch(here, sql, **ann)
    with here.connect(**ann) as connection:
        seen = str(connection.adbc_get_objects(depth="all").read_all())
        assert "customers" in seen
        assert not [hidden for hidden in ("raw", "bronze", "kinds", "dev") if f'"{hidden}"' in seen]
        with pytest.raises(adbc.Error):
            connection.adbc_get_table_schema("raw", db_schema_filter="bronze")
    with pytest.raises(adbc.Error, match='3D000: database "dev" does not exist'):
        fetch(here, "select 1", database="dev", **ann)
    with pytest.raises(adbc.Error, match='role "eve" does not exist'):
        fetch(here, "select 1", user="eve")
    with pytest.raises(adbc.Error, match="53400"):
        fetch(here, "select * from generate_series(1, 200000)", **ann)


def test_hostile_statements_are_refused(here: Place) -> None:
    files = {"{secret}": "/etc/passwd", "{data}": "/etc/hosts", "{pointer}": "/etc/group", "{new}": "/etc/new"}
    with here.client() as client:
        hostile = [(state, line) for state, text in HOSTILE.items() for line in text.strip().splitlines()]
        others = [("0A000", "begin"), ("0A000", "copy gold.orders to stdout"), ("42601", "select 1; select 2")]
        for state, statement in [*hostile, *others, ("0A000", "")]:
            for name, path in files.items():
                statement = statement.replace(name, path)
            with pytest.raises(flight.FlightError, match=f"^(0A000|{state}): ") as caught:
                fetch_with(client, statement.replace("\\n", "\n"))
            assert "Traceback" not in str(caught.value)
        assert fetch_with(client, "select 1 as a").to_pylist() == [{"a": 1}]


def test_nothing_is_written(here: Place) -> None:
    with here.connect() as connection, connection.cursor() as cursor, pytest.raises(adbc.Error):
        cursor.adbc_ingest("new", orders.CUSTOMERS, mode="create")
    client = here.client()
    options = flight.FlightCallOptions(headers=[login("root")])
    update = any_pb2.Any(type_url="type.googleapis.com/arrow.flight.protocol.sql.CommandStatementUpdate")
    descriptor = flight.FlightDescriptor.for_command(update.SerializeToString())
    writer, _ = client.do_put(descriptor, pa.schema({}), options)
    with pytest.raises(flight.FlightError, match="25006"):
        writer.close()
    client.close()


# Passwords and tokens


def login(user: str, password: str = "") -> tuple[bytes, bytes]:
    return b"authorization", b"Basic " + base64.b64encode(f"{user}:{password}".encode())


@pytest.fixture
def users(tmp_path: Path) -> Users:
    found = Users(tmp_path / "users.json")
    found.add("root", "a long secret")
    return found


def test_a_password_is_needed_and_checked(lake: Lake, users: Users) -> None:
    with place(LakeBackend(lake), users) as here:
        assert fetch(here, "select current_user as u", password="a long secret").to_pylist() == [{"u": "root"}]
        for user, password in (("root", "another"), ("root", ""), ("nobody", "a long secret")):
            with pytest.raises(adbc.Error, match="password authentication failed for user"):
                fetch(here, "select 1", user=user, password=password)
            time.sleep(0.6)  # another guess is not looked at before
        with pytest.raises(adbc.Error, match="a user's name and password are needed"):
            fetch(here, "select 1", user="")
        with pytest.raises(flight.FlightUnauthenticatedError), here.client() as client:
            list(client.list_actions())


def test_passwords_cannot_be_guessed_quickly(users: Users) -> None:
    users.add("ann", "another secret")
    door, said = Login(users, Seals(), lambda: None), list[str]()
    end = time.monotonic() + 1
    while time.monotonic() < end:
        with pytest.raises(PgError) as caught:
            door.caller({"authorization": [login("root", "a guess")[1].decode()]})
        said.append(caught.value.sqlstate)
    assert 1 < said.count("28P01") <= 4
    assert set(said) == {"28P01", "28000"}
    assert door.caller({"authorization": [login("ann", "another secret")[1].decode()]}).user == "ann"


def test_a_token_ends_with_the_password_and_with_the_server(users: Users) -> None:
    door = Login(users, Seals(), lambda: None)
    sent = door.caller({"authorization": [login("root", "a long secret")[1].decode()]}).sending_headers()
    assert door.caller({"authorization": [sent["authorization"]], "database": ["dev"]}).user == "root"
    forged = base64.b64encode(base64.b64decode(sent["authorization"][7:])[:-1] + b"x").decode()
    others = Login(users, Seals(), lambda: None)
    for stranger, token in ((others, sent["authorization"]), (door, f"Bearer {forged}"), (door, "Bearer")):
        with pytest.raises(PgError, match="no longer valid"):
            stranger.caller({"authorization": [token]})
    users.add("root", "a new secret")
    with pytest.raises(PgError, match="no longer valid"):
        door.caller({"authorization": [sent["authorization"]]})


def test_everything_is_encrypted_with_a_certificate(lake: Lake, users: Users) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    pair = issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes()
    with place(LakeBackend(lake), users, pair) as here:
        uri = f"grpc+tls://localhost:{here.port}"
        trusted = {DatabaseOptions.TLS_ROOT_CERTS.value: authority.cert_pem.bytes().decode()}
        assert fetch(here, "select 1 as a", password="a long secret", uri=uri, **trusted).num_rows == 1
        for other in ({"uri": uri}, {}):  # an authority that is not known; no encryption
            with pytest.raises(adbc.Error):
                fetch(here, "select 1", password="a long secret", **other)


def test_a_ticket_is_for_nobody_else(here: Place) -> None:
    client = here.client()
    root, ann = (flight.FlightCallOptions(headers=[login(user)]) for user in ("root", "ann"))
    descriptor = flight.FlightDescriptor.for_command(pack(CommandStatementQuery("select * from bronze.raw")))
    ticket = client.get_flight_info(descriptor, root).endpoints[0].ticket
    with pytest.raises(flight.FlightError, match="26000"):
        client.do_get(ticket, ann).read_all()
    own = Handle("ann", "main", "select * from gold.orders", commit="0" * 40).sealed(Seals())
    with pytest.raises(flight.FlightError, match="26000"):
        client.do_get(flight.Ticket(pack(TicketStatementQuery(own))), ann).read_all()
    with pytest.raises(flight.FlightError, match="08P01"):
        client.do_get(flight.Ticket(b"\xff\xff"), root).read_all()
    client.close()


# What runs


SLOW = "select count(*) from generate_series(1, 1000000) a(i), generate_series(1, 1000000) b(j) where i + j = 7"


@contextmanager
def reading(place: Place) -> Iterator[Any]:
    """A client that waits for the rows of a query that takes long."""
    options = flight.FlightCallOptions(headers=[login("root")])
    descriptor = flight.FlightDescriptor.for_command(pack(CommandStatementQuery(SLOW)))
    with place.client() as client:
        reader = client.do_get(client.get_flight_info(descriptor, options).endpoints[0].ticket, options)
        eventually(lambda: any(call._session for call in list(place.endpoint._server.calls)))
        yield reader


def test_a_client_that_leaves_ends_its_query(here: Place) -> None:
    with reading(here) as reader:
        reader.cancel()
        eventually(lambda: not here.endpoint._server.calls)


def test_at_the_end_what_runs_is_ended_and_nobody_is_let_in(lake: Lake) -> None:
    with ExitStack() as stack:
        with place(LakeBackend(lake), grace_seconds=0.2) as here:
            reader = stack.enter_context(reading(here))
            stopping = threading.Thread(target=lambda: here.served.call(here.served.server.stop()))
            stopping.start()
            eventually(lambda: here.endpoint._server.ending)
            with pytest.raises(flight.FlightUnavailableError, match="57P01"):
                fetch_with(here.client(), "select 1")
            stopping.join(20)
            with pytest.raises(flight.FlightTimedOutError, match="57014"):
                reader.read_all()


def test_there_is_a_line_in_the_audit_log(lake: Lake) -> None:
    with place(LakeBackend(lake, ROLES)) as here:
        fetch(here, "select customer from gold.orders where id = $1 and 'hush' = 'hush'", 1)
        with pytest.raises(adbc.Error):
            fetch(here, "select * from bronze.raw where name = 'hush'", user="ann")
        with here.connect():
            pass
    lines = [json.loads(line) for line in here.log.getvalue().splitlines()]
    told = [(each["user"], each["ref"], each["statement"], each["rows"], each["error"]) for each in lines]
    assert ("root", "main", "select customer from gold.orders where id = $1 and ? = ?", 2, None) in told
    assert ("ann", "main", "select * from bronze.raw where name = ?", 0, "42P01") in told
    assert all(each["client"].startswith("127.0.0.1:") for each in lines)
    assert "hush" not in here.log.getvalue()


# Messages, against the library of protocol buffers


def _protobuf() -> dict[str, Any]:
    """The same messages, with the numbers of the specification."""
    kinds = descriptor_pb2.FieldDescriptorProto
    text, data, flag, number = kinds.TYPE_STRING, kinds.TYPE_BYTES, kinds.TYPE_BOOL, kinds.TYPE_UINT32
    specified = {
        "CommandStatementQuery": [("query", 1, text, ""), ("transaction_id", 2, data, "")],
        "CommandGetSqlInfo": [("info", 1, number, "many")],
        "CommandGetTables": [
            ("catalog", 1, text, "optional"),
            ("db_schema_filter_pattern", 2, text, "optional"),
            ("table_name_filter_pattern", 3, text, "optional"),
            ("table_types", 4, text, "many"),
            ("include_schema", 5, flag, ""),
        ],
    }
    file = descriptor_pb2.FileDescriptorProto(name="flight.proto", package="arrow.flight.protocol.sql", syntax="proto3")
    for kind, fields in specified.items():
        made = file.message_type.add(name=kind)
        for name, at, type_, more in fields:
            field = made.field.add(name=name, number=at, type=type_)
            field.label = kinds.LABEL_REPEATED if more == "many" else kinds.LABEL_OPTIONAL
            if more == "optional":
                field.proto3_optional, field.oneof_index = True, len(made.oneof_decl)
                made.oneof_decl.add(name=f"_{name}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = [f"{file.package}.{each.name}" for each in file.message_type]
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names}


THEIRS = _protobuf()
TABLES = st.builds(
    messages.CommandGetTables,
    catalog=st.none() | st.text(), db_schema_filter_pattern=st.none() | st.text(),
    table_name_filter_pattern=st.none() | st.text(), table_types=st.lists(st.text()).map(tuple),
    include_schema=st.booleans(),
)  # fmt: skip
INFOS = st.builds(messages.CommandGetSqlInfo, info=st.lists(st.integers(0, 2**32 - 1)).map(tuple))
QUERIES = st.builds(messages.CommandStatementQuery, query=st.text(), transaction_id=st.binary())


@given(TABLES | INFOS | QUERIES)
def test_messages_are_those_of_protocol_buffers(message: messages.Message) -> None:
    kind = THEIRS[f"arrow.flight.protocol.sql.{type(message).__name__}"]
    theirs = kind(**{name: getattr(message, name) for name in message.__dataclass_fields__})
    outer = any_pb2.Any()
    outer.Pack(theirs)
    assert messages.unpack(outer.SerializeToString()) == message
    outer = any_pb2.Any.FromString(messages.pack(message))
    again = kind()
    assert outer.Unpack(again)
    assert again == theirs


@given(st.binary() | st.binary().map(lambda rest: pack(CommandStatementQuery("select 1"))[:70] + rest))
def test_what_is_no_message_is_refused(raw: bytes) -> None:
    try:
        messages.unpack(raw)
    except PgError as error:
        assert error.sqlstate in ("08P01", "0A000")


# The command


def test_the_command_serves_flight_and_ends_though_a_client_takes_nothing(tmp_path: Path) -> None:
    with orders.create(tmp_path) as lake, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        arguments = ["--trust", "--port", "0", "--http-port", "0", "--flight-port", str(port), "--audit", os.devnull]
        command = [sys.executable, "-m", "mere", "--lake", str(lake.root), "serve", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout
            said = [process.stdout.readline() for _ in range(3)]
            assert f"grpc://127.0.0.1:{port}" in said[2]
            with flight.connect(f"grpc://127.0.0.1:{port}") as client:
                assert fetch_with(client, "select count(*) as n from gold.orders").to_pylist() == [{"n": 3}]
                asked = pack(CommandStatementQuery("select * from generate_series(1, 100000000)"))
                found = client.get_flight_info(flight.FlightDescriptor.for_command(asked))
                reader = client.do_get(found.endpoints[0].ticket)
                reader.read_chunk()
                process.send_signal(signal.SIGTERM)
                time.sleep(0.5)
                process.send_signal(signal.SIGTERM)  # it need not wait for what runs
                assert process.wait(30) == 0
                reader.cancel()
        finally:
            process.kill()
            process.communicate()

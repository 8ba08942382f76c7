"""What nobody may do: files, settings, writes. And what one statement may use before it fails alone."""

# ruff: noqa: E501
from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from mere.lake.lake import Lake
from mere.serve.access.limits import Limits, Resources
from mere.serve.access.roles import Declared, Role
from mere.serve.language import guard
from mere.serve.protocol.port import PgError, Session
from mere.serve.protocol.statement import CreateView, DropView, Query, Set
from mere.serve.session.backend import LakeBackend
from tests.lake import orders
from tests.serve.asking import ask, failure, rows
from tests.serve.hostile import HOSTILE
from tests.serve.served import served

SECRET = "the-secret-of-the-tests"


@dataclass(frozen=True)
class House:
    folder: Path
    lake: Lake
    backend: LakeBackend
    session: Session

    def written(self, statement: str) -> str:
        """The statement with the places in it."""
        data = next(Path(self.lake.warehouse).rglob("*.parquet"))
        places = {
            "{secret}": self.folder / "secret.csv",
            "{new}": self.folder / "new",
            "{data}": data,
            "{pointer}": self.lake.at().pointer("gold.orders"),
        }
        for mark, place in places.items():
            statement = statement.replace(mark, str(place))
        return statement.replace("\\n", "\n")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("house")
    (folder / "secret.csv").write_text(f"a\n{SECRET}\n")
    with Lake.create(folder / "lake") as lake:
        orders.write(lake, "gold.orders", orders.ORDERS)
        orders.write(lake, "gold.customers", orders.CUSTOMERS)
        backend = LakeBackend(lake, resources=Resources(memory="200MB", spill="200MB", threads=2))
        yield House(folder, lake, backend, backend.connect("ann", "main", {}))
        backend.close()


def files(folder: Path) -> dict[Path, int]:
    return {
        path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file() and "catalog.db" not in path.name
    }


CASES = [(state, line) for state, text in HOSTILE.items() for line in text.strip().splitlines()]


def test_there_are_enough_of_them() -> None:
    assert len({line for _, line in CASES}) == len(CASES) >= 200


@pytest.mark.parametrize("state", HOSTILE)
def test_what_is_hostile_is_refused(house: House, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(house.folder)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    before = files(house.folder)
    found: dict[str, str] = {}
    for known, line in CASES:
        if known == state:
            error = _refusal(house.session, house.written(line))
            found[line] = error.sqlstate if error else "it was run"
            assert error is None or SECRET not in f"{error.message}{error.hint}{error.detail}"
    assert {line: got for line, got in found.items() if got != state} == {}
    assert files(house.folder) == before
    assert rows(house.session, "select count(*) from gold.orders") == [("3",)]


def _refusal(session: Session, sql: str) -> PgError | None:
    try:
        statements = session.read(sql)
        for statement in statements:
            inner = statement.all[-1]
            if isinstance(statement, Set):
                session.set(statement.name, statement.value, statement.local)
            elif isinstance(statement, CreateView):
                session.create_view(statement)
            elif isinstance(statement, DropView):
                session.drop_views(statement)
            elif isinstance(inner, Query):
                session.describe(inner, [])
                list(session.run(inner, [], []).batches())
    except PgError as error:
        return error
    return None


def test_what_is_hostile_is_refused_over_the_wire(house: House) -> None:
    """As a client meets it, with the connection still there afterwards."""
    before = files(house.folder)
    found: dict[str, tuple[str, str]] = {}
    with served(house.backend) as running:
        with psycopg.connect(running.dsn(), autocommit=True) as connection:
            for state, line in CASES:
                try:
                    connection.execute(house.written(line).encode())
                    found[line] = (state, "it was run")
                except psycopg.Error as error:
                    found[line] = (state, error.sqlstate or "lost")
                connection.rollback()
            assert connection.execute("select count(*) from gold.orders").fetchone() == (3,)
    assert {line: got for line, got in found.items() if got[0] != got[1]} == {}
    assert files(house.folder) == before


@pytest.mark.parametrize(
    "sql",
    ["select getenv('HOME')", "from read_csv('x')", "from 'x.csv'", "select * from \"x.csv\"", "from lake.other",
     "from duckdb_settings()", "select (select content from read_text('x'))", "select [getenv('HOME')]",
     "with x as (from glob('*')) from x", "select list_transform([1], lambda x: getenv('HOME'))", "select current_setting('x')",
     "from query('select 1')", "copy (select 1) to 'x'", "select 1; select 2", "attach 'x'", "create table t as select 1",
     "from memory.information_schema.tables", "select {'a': getenv('HOME')}", "select max(getenv('HOME')) over ()",
     "describe from lake.orders", "show tables", "pivot lake.orders on id using count(*)"],
)  # fmt: skip
def test_the_second_look_sees_it_too(house: House, sql: str) -> None:
    """What DuckDB gets is looked at by its own parser, whatever the first look has let pass."""
    with pytest.raises(PgError):
        guard.confirm(house.backend.engine_for([]), sql, {"lake.orders"})


def test_the_engine_by_itself_reaches_no_other_folder_and_no_setting(house: House) -> None:
    import duckdb

    cursor = house.backend.engine_for([]).cursor()
    secret = house.folder / "secret.csv"
    for sql in (f"from read_csv('{secret}')", f"copy (select 1) to '{house.folder}/new'", "set threads = 1",
                f"attach '{house.folder}/new.db'", "load httpfs", "install httpfs", "set enable_external_access = true",
                "from read_csv('https://127.0.0.1/x.csv')"):  # fmt: skip
        with pytest.raises(duckdb.Error):
            cursor.execute(sql).fetchall()
    assert not (house.folder / "new").exists()


# Limits

BOMBS = {
    "with recursive t(n) as (select 1 union all select n + 1 from t) select count(*) from t": {"57014", "53200", "53400"},
    "select count(*) from generate_series(1, 1000000) a, generate_series(1, 1000000) b where a % 7 = b % 11": {"57014"},
    "select array_agg(a || ' of a long text that fills the memory') from generate_series(1, 100000000) a": {"53200", "53400", "57014"},
    "select a, count(*) from generate_series(1, 100000000) a group by a order by a desc": {"53200", "53400", "57014"},
    "select repeat('x', 2000000000)": {"53200"},
    "select repeat(repeat(repeat('x', 1000), 1000), 1000)": {"53200"},
    "select lpad('x', 2000000000)": {"53200"},
    "select rpad('x', 2000000000, 'y')": {"53200"},
    "select replace(repeat('x', 1000000), 'x', repeat('y', 1000000))": {"53200"},
    "with recursive t(s) as (select 'x' union all select s || s from t) select length(s) from t": {"53200", "53400", "57014"},
    "with recursive t(s) as (select 'x' union all select concat(s, s) from t) select length(s) from t": {"53200", "53400", "57014"},
    "select string_agg(repeat('x', 1000000), ',') from generate_series(1, 100000)": {"53200", "53400", "57014"},
    "select count(*) from unnest(array(select generate_series(1, 1000000000))) x": {"53200", "53400", "57014"},
    "select x from (select generate_series(1, y) x from (values (10000000000)) v(y)) s": {"53400", "53200"},
    "select 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!' ~ '^(a+)+$'": set(),  # RE2 does not mind
    "select 'x' ~ '((a{1,1000}){1,1000}){1,1000}'": {"54001"},
    "select " + "repeat(" * 40 + "'x'" + ", 2)" * 40: {"54001"},
    "select " + "pg_size_pretty(" * 9 + "1" + ")" * 9: {"54001"},
    "select 1" + "::text::int" * 12: {"54001"},
    "select " + "1 / (" * 30 + "1" + ")" * 30: {"54001"},
    "select " + "(" * 5000 + "1" + ")" * 5000: {"54001"},
    "select " + "1 + " * 5000 + "1": {"54001"},
    "select " + "case when true then " * 1500 + "1" + " end" * 1500: {"54001"},
    "select '" + "x" * 1_100_000 + "'": {"54000"},
}  # fmt: skip


@pytest.mark.parametrize("sql", BOMBS, ids=lambda sql: sql[:60])
def test_a_bomb_fails_alone(house: House, sql: str) -> None:
    role = Role("hasty", limits=Limits(time=timedelta(seconds=1)))
    hasty = LakeBackend(house.lake, Declared({"hasty": role}))
    hasty._engine = house.backend.engine_for([])
    session = hasty.connect("hasty", "main", {})
    if not BOMBS[sql]:
        ask(session, sql)
    else:
        reading = {"57014"} if len(sql) > 10_000 else set()  # it is part of the time
        assert failure(session, sql).sqlstate in BOMBS[sql] | reading
    assert rows(house.session, "select count(*) from gold.orders") == [("3",)]


LOWEST = -(2**63)


@pytest.mark.parametrize("function", ["lag", "lead"])
@pytest.mark.parametrize("offset", [str(LOWEST), f"({LOWEST})", f"{LOWEST + 1} - 1", f"'{LOWEST}'::bigint", "$1"])
@pytest.mark.parametrize("window", ["()", "(order by x)", "(partition by x)"])
def test_offsets_below_all_rows(house: House, function: str, offset: str, window: str) -> None:
    """With the lowest one, DuckDB falls over, and the server with it."""
    values = [LOWEST] if offset == "$1" else []
    sql = f"select {function}(x, {offset}) over {window} from (values (1), (2)) v(x)"
    assert rows(house.session, sql, values, [20] * len(values)) == [(None,), (None,)]


@pytest.mark.parametrize(
    "sql", ["nth_value(x, {})", "ntile({})", "sum(x) over (rows between {} preceding and current row) --"]
)
@pytest.mark.parametrize("number", [LOWEST, LOWEST + 1, 2**63 - 1, 0, -1])
def test_extreme_numbers_in_windows(house: House, sql: str, number: int) -> None:
    try:
        ask(house.session, f"select {sql.format(number)} over () from (values (1), (2)) v(x)")
    except PgError as error:
        assert error.sqlstate != "XX000"
    assert rows(house.session, "select 1") == [("1",)]


def test_a_long_chain_of_texts_is_joined_at_once(house: House) -> None:
    began = time.process_time()
    (found,) = rows(house.session, "select 'a'" + " || 'b'" * 300)
    assert found == ("a" + "b" * 300,)
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        ("select " + "1," * 499_000 + "1", "54000"),
        ("select count(*) from gold.orders a1" + "".join(f", gold.orders a{n}" for n in range(2, 120)), "54001"),
        ("select repeat('x', 9000000)", "53200"),
        ("select lpad('x', 9000000)", "53200"),
    ],
)
def test_what_would_take_long_before_it_runs_is_refused(house: House, sql: str, sqlstate: str) -> None:
    assert failure(house.session, sql).sqlstate == sqlstate


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        ("select 12abc", "42601"),
        ("select x from (values (1), (1), (2)) v(x) order by x fetch first 1 rows with ties", "0A000"),
        ("select gold.orders.id from gold.orders o", "42P01"),
        ("select gold.orders.id from gold.orders o, (values (1)) orders(id)", "42P01"),
    ],
)
def test_what_would_be_read_otherwise_is_refused(house: House, sql: str, sqlstate: str) -> None:
    assert failure(house.session, sql).sqlstate == sqlstate


def test_a_column_may_name_the_schema_of_its_table(house: House) -> None:
    for sql in (
        "select min(gold.orders.id) from gold.orders",
        "select min(gold.orders.id) from gold.customers c join gold.orders on true",
        "select (select min(gold.orders.id)) from gold.orders",
        "select x from (select min(gold.orders.id) x from (gold.orders cross join gold.customers)) y",
    ):
        assert rows(house.session, sql)[0] == ("1",)

"""Memory and time of the server, measured from outside, while a user does the worst that a query can do."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from mere.lake.lake import Lake
from mere.serve.engine import memory
from mere.serve.engine.memory import Watch
from mere.serve.language import guard
from mere.serve.protocol.port import PgError
from tests.serve.served import eventually

MEGABYTE = 1 << 20
LIMIT = 300 * MEGABYTE
TEXTS = "(select n, lpad(n::text, 9000, 'a,') as s from generate_series(1, 100000) n) x"

SHARED = "(select n, repeat('x', 7000000) as s from generate_series(1, 3000) n) x"  # one text for all rows
JSONS = "(select '[' || repeat('1,', 3000000) || '1]' as s) x, generate_series(1, 3000) n"
LISTS = "(select array_agg(repeat('x', 1000)) as a from generate_series(1, 7000)) y, generate_series(1, 3000) n"


class Victim:
    """A server of its own, and how large it gets."""

    def __init__(self, folder: Path) -> None:
        Lake.create(folder / "lake").close()
        command = [sys.executable, "-m", "mere", "--lake", str(folder / "lake"), "serve", "--trust", "--json"]
        command += [
            "--port",
            "0",
            "--http-port",
            "0",
            "--memory",
            f"{LIMIT}B",
            "--spill",
            "200MB",
            "--audit",
            os.devnull,
        ]
        # What no limit has kept from growing ends before the machine does.
        wall = f"ulimit -v {12 << 20}; exec {shlex.join(command)}"
        self.process = subprocess.Popen(["sh", "-c", wall], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        about = ""
        while not about.rstrip().endswith("}"):
            about += self.process.stdout.readline()
        self.port = json.loads(about)["port"]
        self.connection = self.connect()
        self.connection.execute("select 1")
        self.base = self.peak = self.size()
        threading.Thread(target=self._measure, daemon=True).start()

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        found = psycopg.connect(
            f"host=127.0.0.1 port={self.port} dbname=main user=ann options='-c statement_timeout=1000'", autocommit=True
        )
        found.prepare_threshold = None
        return found

    def size(self) -> int:
        try:
            return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096
        except OSError:
            return 0

    def _measure(self) -> None:
        while self.process.poll() is None:
            self.peak = max(self.peak, self.size())
            time.sleep(0.01)

    def attack(self, sql: str) -> str:
        """How it ended: 'done' or the SQLSTATE."""
        try:
            self.connection.execute(sql.encode())
        except psycopg.Error as error:
            return error.sqlstate or str(error)
        return "done"

    def stop(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.communicate(timeout=60)


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    found = Victim(tmp_path_factory.mktemp("victim"))
    yield found
    found.stop()


ATTACKS = [
    "select count(*) from (select generate_series(1, 200000 + n % 2) from generate_series(1, 20000) n) x",
    "select count(*) from generate_series(1, 20000) n, lateral generate_series(1, 200000 + n % 2) m",
    f"select sum(length(regexp_replace(s, '.', lpad('', 9999, 'y'), 'g'))) from {TEXTS}",
    rf"select sum(length(regexp_replace(s, '.', '\&\&\&\&\&\&\&\&\&\&', 'g'))) from {TEXTS}",
    rf"select sum(length(regexp_replace(s, '.*', '{chr(92)}0' || repeat('{chr(92)}0', n::int), 'g'))) from {TEXTS}",
    f"select sum(length(replace(s, 'a', s))) from {TEXTS}",
    f"select sum(length({'||'.join(['s'] * 40)})) from {TEXTS}",
    f"select sum(length(concat({','.join(['s'] * 40)}))) from {TEXTS}",
    f"select sum(length(concat_ws(s, {','.join(['s'] * 40)}))) from {TEXTS}",
    f"select sum(length(format('{'%s' * 40}', {','.join(['s'] * 40)}))) from {TEXTS}",
    f"select {'+'.join(f'length(lpad(s, {9000 + i}))' for i in range(300))} from {TEXTS}",
    f"select {'+'.join(f'length(rpad(s, {9000 + i}))' for i in range(60))} from {TEXTS}",
    f"select sum(length(array_to_string(string_to_array(s, ','), '{'z' * 9999}'))) from {TEXTS}",
    "select sum(length(s || n)) from generate_series(1, 100000) n, (select repeat('x', 8000000) as s) y",
    "select length(string_agg(lpad('', 10000, n::text), ',')) from generate_series(1, 100000000) n",
    "select array_length(array_agg(n), 1) from generate_series(1, 1000000000) n",
    "select json_agg(lpad(n::text, 10000)) from generate_series(1, 100000000) n",
    "with recursive t(s) as (select 'x'::text union all select s || s from t) select count(*) from t",
    "with recursive t(n) as (select 1 union all select n + 1 from t) select count(*) from t",
    f"select count(*) from {TEXTS} where s like '%a%a%a%a_b'",
    f"select count(*) from {TEXTS} where s like '%a%a%a%a%b' || n::text",
    f"select count(*) from {TEXTS} where s ilike '%a%a#%%a%a%b' escape '#'",
    f"select count(*) from {TEXTS} where s ~ '(a+)+,{{900}}b{{900}}'",
    f"select count(*) from {TEXTS} where s ~ ('(a?){{9}}(a*a*){{9}}' || 'b')",
    f"select count(*) from {TEXTS} where s ~ (repeat('(a?){{99}}', 99) || n::text)",
    f"select count(distinct s || s) from {TEXTS}",
    f"select s from {TEXTS} order by reverse(s) || s desc",
    "select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b, generate_series(1, 100000) c",
    f"select max(length(translate(s, 'x', n::text))) from {SHARED}",
    f"select max(length(left(s, n::int))) from {SHARED}",
    f"select max(length(substring(s from n::int))) from {SHARED}",
    f"select max(length(trim(n::text from s))) from {SHARED}",
    f"select max(length(replace(s, n::text, ''))) from {SHARED}",
    f"select max(array_length(string_to_array(s, n::text), 1)) from {SHARED}",
    f"select count(*) from {SHARED} where s ~ n::text",
    "select max(length(left(repeat('x', 7000000), 6999999 - n::int))) from generate_series(1, 3000) n",
    "select max(length(left((select repeat('x', 7000000)), 6999999 - n::int))) from generate_series(1, 3000) n",
    "select max(length(upper(case when n > 0 then repeat('x', 7000000) end))) from generate_series(1, 3000) n",
    "select max(length(upper(s))) from (select repeat('x', 7000000) s) x join generate_series(1, 9999) n on s > ''",
    f"select count((s::json) -> n::int) from {JSONS}",
    f"select count((s::json) ->> n::int) from {JSONS}",
    # A length that is the same for all rows, of which each has a text of its own.
    "select max(length(lpad(n::text, 2000000))) from generate_series(1, 3000) n",
    "select max(length(rpad(n::text, 2000000))) from generate_series(1, 3000) n",
]  # fmt: skip

# One list for all rows: nothing asks beforehand how long what is made of it would be.
LISTS_OF_ALL = [
    f"select max(length(array_to_string(a, ''))) from {LISTS}",
    f"select max(length(a::text)) from {LISTS}",
    f"select max(length(to_json(a)::text)) from {LISTS}",
    f"select max(length(json_build_object('a', a, 'n', n)::text)) from {LISTS}",
]  # fmt: skip

# Functions that ask. No timeout could interrupt them.
FUNCTIONS_OF_LISTS = [
    "a @> array[n::text]", "array[n::text] <@ a", "a && array[n::text]", "n::text = any(a)", "n::text <> all(a)",
    "array_position(a, n::text)", "cardinality(array_positions(a, n::text))", "cardinality(array_remove(a, n::text))",
    "cardinality(array_replace(a, n::text, 'b'))", "cardinality(array_cat(a, array[n::text]))",
    "cardinality(array_append(a, n::text))", "cardinality(array_prepend(n::text, a))",
    "cardinality(a || array[n::text])",
]  # fmt: skip
# The same list for all rows, as one value, as one of a joined table, and of elements without letters.
SHARED_LISTS = [
    LISTS,
    LISTS.replace(", generate_series(1, 3000) n", " join generate_series(1, 3000) n on cardinality(a) > n % 5"),
    "(select array_agg(m::text) as a from generate_series(1, 100000) m) y, generate_series(1, 3000) n",
]


@pytest.mark.parametrize("sql", ATTACKS, ids=lambda sql: sql[:60])
def test_no_query_takes_more_than_the_limits(victim: Victim, sql: str) -> None:
    check_attack(victim, sql, LIMIT + 300 * MEGABYTE)


@pytest.mark.parametrize("sql", LISTS_OF_ALL, ids=lambda sql: sql[:60])
def test_what_is_made_of_a_list_that_all_rows_share_is_refused_by_the_system(victim: Victim, sql: str) -> None:
    """What was freed, and is mapped still, may be taken once more before that."""
    check_attack(victim, sql, LIMIT + 600 * MEGABYTE)


@pytest.mark.parametrize("lists", SHARED_LISTS, ids=["long", "joined", "many"])
@pytest.mark.parametrize("call", FUNCTIONS_OF_LISTS)
def test_a_list_that_all_rows_share_is_not_read_thousands_of_times(victim: Victim, call: str, lists: str) -> None:
    start = time.monotonic()
    check_attack(victim, f"select count({call}) from {lists}", LIMIT + 300 * MEGABYTE)
    assert time.monotonic() - start < 3, "of one second, on a busy machine"


def check_attack(victim: Victim, sql: str, most: int) -> None:
    eventually(lambda: victim.size() - victim.base < LIMIT)  # what the one before has freed goes back a little later
    victim.peak, start = victim.size(), time.monotonic()
    told = victim.attack(sql)
    assert told in {"57014", "53200", "53400", "54000", "54001", "54011", "42601"}
    assert time.monotonic() - start < 6, "of one second, on a busy machine"
    assert victim.peak - victim.base < most
    assert victim.attack("select 1") == "done"


ARGUMENTS = ("s", "n", "'a'", "string_to_array(s, ',')", "1000000000", "now()", "to_json(s)")


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_no_function_takes_more_than_the_limits(victim: Victim) -> None:
    ran = set()
    for name in sorted(set(guard.allowed())):
        victim.peak = victim.size()
        for count in (1, 2, 3):
            for given in product(ARGUMENTS[: 7 if count < 3 else 5], repeat=count):
                start = time.monotonic()
                told = victim.attack(f"select max(length(({name}({', '.join(given)}))::text)) from {TEXTS}")
                took = time.monotonic() - start
                assert took < 8, (name, given)
                assert victim.process.poll() is None, (name, given)
                if told in ("done", "57014", "53200", "53400"):
                    ran.add(name)
        assert victim.peak - victim.base < LIMIT + 400 * MEGABYTE, name
    assert len(ran) > 100


def test_many_at_once_leave_the_server_alive_and_the_others_served(victim: Victim) -> None:
    eventually(lambda: victim.size() - victim.base < LIMIT)
    victim.peak = victim.size()
    ends: list[str] = []

    def attack(number: int) -> None:
        with victim.connect() as connection:
            try:
                connection.execute(
                    f"select array_length(array_agg(n + {number}), 1) from generate_series(1, 1000000000) n".encode()
                )
            except psycopg.Error as error:
                ends.append(error.sqlstate or str(error))

    threads = [threading.Thread(target=attack, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)
    assert set(ends) <= {"57014", "53200"}
    assert len(ends) == 8
    assert victim.peak - victim.base < LIMIT + 300 * MEGABYTE
    assert victim.attack("select 1") == "done"


# The watch


class Meter:
    def __init__(self) -> None:
        self.used = 100 * MEGABYTE

    def __call__(self) -> int:
        return self.used


def test_the_one_that_took_most_is_stopped_and_new_ones_are_refused_meanwhile() -> None:
    meter, stopped = Meter(), list[str]()
    watch = Watch(1000 * MEGABYTE, meter)
    with watch.over(lambda: stopped.append("large")) as large:
        time.sleep(0.1)
        meter.used += 900 * MEGABYTE
        eventually(lambda: large.grown > 800 * MEGABYTE)
        with watch.over(lambda: stopped.append("small")) as small:
            meter.used += 500 * MEGABYTE
            eventually(lambda: large.stopped)
            assert not small.stopped
            with pytest.raises(PgError, match="out of memory"), watch.over(lambda: None):
                pass
            eventually(lambda: small.stopped)  # the large one does not end
    assert stopped.index("large") < stopped.index("small")
    with watch.over(lambda: None) as alone:
        assert alone.stopped is None, "nobody else is there who could give some back"


def test_room_is_for_all_rows_that_come_at_once() -> None:
    meter = Meter()
    watch = Watch(100 * MEGABYTE, meter)
    assert watch.room(pa.array([1000] * 2048)).to_pylist() == [True] * 2048
    assert watch.room(pa.array([None, None], pa.int64())).to_pylist() == [True, True]
    assert watch.room(pa.array([64 * 1024] * 2048)).to_pylist() == [False] * 2048
    assert watch.room(pa.array([9_000_000])).to_pylist() == [False]
    meter.used += 400 * MEGABYTE
    assert watch.room(pa.array([1000])).to_pylist() == [False]


def test_texts_may_be_long_one_at_a_time() -> None:
    watch = Watch(100 * MEGABYTE, Meter())
    assert watch.load(pa.array([30_000_000])).to_pylist() == [True]
    assert watch.load(pa.array([30_000_000] * 3)).to_pylist() == [False] * 3
    assert watch.load(pa.array([None], pa.int64())).to_pylist() == [True]


def test_a_process_gets_no_more_than_the_ceiling_and_what_it_gave_back_does_not_count() -> None:
    """In a process of its own, whose limits are changed."""
    script = """if True:
        from mere.serve.engine import memory
        before = memory.resident()
        ceiling = memory.Ceiling(before + (100 << 20))
        ceiling.begin(memory.resident())
        for _ in range(9):
            block = bytearray(60 << 20)
            del block
            ceiling.follow(memory.resident())
        try:
            bytearray(200 << 20)
        except MemoryError:
            print("refused")
        ceiling.begin(before + (300 << 20))
        print(len(bytearray(8 << 20)) >> 20)
        ceiling.lift()
        print(len(bytearray(200 << 20)) >> 20)
    """
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["refused", "8", "200"]


@pytest.mark.parametrize(("setting", "size"), [("953.6 MiB", 999_922_073), ("1.0 GiB", 1 << 30), ("512 bytes", 512)])
def test_the_limit_is_read_as_duckdb_shows_it(setting: str, size: int) -> None:
    assert memory.parse(setting) == size


def test_it_is_measured_here() -> None:
    before = memory.resident()
    block = bytearray(64 * MEGABYTE)
    assert memory.resident() - before > 60 * MEGABYTE
    del block
    memory.give_back()
    assert memory.resident() - before < 30 * MEGABYTE

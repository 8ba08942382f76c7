"""Trino's proven.tsv says what was proven by the cases of tests/lake/proof, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from mere.engine.session import Session
from mere.lake.lake import Lake
from mere.sql.trino.texts import ALIKE_IN_CASE
from mere.sql.trino.translate import ENGINE, FILE, proven
from tests.lake.proof.both import Both, prepare, translated, understood
from tests.lake.proof.cases import cases
from tests.lake.proof.served import in_trino
from tests.lake.proof.write import AT_ONCE, TRINO_DOCUMENT, document, prove, text
from tests.services.trino import Trino


def test_every_line_is_proven_by_a_case_and_in_order() -> None:
    """A line that somebody wrote by hand has no case that proves it."""
    used: dict[str, str] = {}
    for case in cases():
        used |= understood(case, ENGINE) or {}
    assert text(used) == FILE.read_text(encoding="utf-8")


def test_the_page_lists_what_the_file_says() -> None:
    assert TRINO_DOCUMENT.read_text(encoding="utf-8") == document(proven().forms, "Trino")


def test_what_is_proven_is_most_of_what_views_are_made_of() -> None:
    forms = proven().forms
    assert {"sum(bigint)", "count(*)", "avg(double)", "add(int, int)", "eq(string, string)", "join left on"} <= set(
        forms
    )
    assert len(forms) > 1500


@pytest.fixture
def both(
    tmp_path_factory: pytest.TempPathFactory, spark_on: Callable[..., Session], trino_server: Trino
) -> Iterator[Both]:
    with Lake.create(tmp_path_factory.mktemp("proof") / "lake") as lake:
        session = spark_on(lake, "main")
        before = {name: str(session.spark.conf.get(name)) for name in AT_ONCE}
        for name, value in AT_ONCE.items():
            session.spark.conf.set(name, value)
        prepare(session.spark)
        with in_trino(trino_server, lake, session.spark) as trino:
            yield Both(session.spark, trino)
        for name, value in before.items():
            session.spark.conf.set(name, value)


def test_a_sample_of_the_cases_still_gives_the_same_values(both: Both) -> None:
    chosen = [case for case in cases() if understood(case, ENGINE) is not None]
    for case in random.Random(20).sample(chosen, 25):
        ours, _ = translated(case, ENGINE)
        assert both.differs(case, ours) is None, case


def test_letters_are_made_great_and_small_alike_wherever_that_is_not_left_to_spark(
    both: Both, trino_server: Trino
) -> None:
    every = [code for code in range(1, 0x10000) if not 0xD800 <= code < 0xE000]
    session = trino_server.connect()
    codes = f"ARRAY[{', '.join(map(str, every[:20000]))}]", f"ARRAY[{', '.join(map(str, every[20000:40000]))}]"
    more = f"ARRAY[{', '.join(map(str, every[40000:]))}]"
    letters = []
    for part in (*codes, more):
        letters += session.fetchall(
            f"SELECT c, upper(chr(c)), lower(chr(c)) FROM UNNEST({part}) AS t(c)"
            f" WHERE regexp_like(chr(c), '^(?:{ALIKE_IN_CASE})$')"
        )
    session.close()
    assert len(letters) > 20_000
    text_ = "".join(chr(code) for code, _, _ in sorted(letters))
    theirs = both.spark.sql("select upper(:t), lower(:t)", args={"t": text_}).collect()[0]
    mine = "".join(up for _, up, _ in sorted(letters)), "".join(low for _, _, low in sorted(letters))
    assert tuple(theirs) == mine


def test_all_of_the_file_is_what_the_cases_prove(both: Both) -> None:
    found, refused = prove(both, cases(), {})
    assert text(found) == FILE.read_text(encoding="utf-8")
    # One case never proves what another refutes.
    assert [case for case in refused if understood(case, ENGINE) is not None and "not know" not in refused[case]] == []

"""proven.tsv says what was proven by the cases of tests/lake/proof, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mere.engine.session import Session
from mere.lake.lake import Lake
from mere.sql.duckdb.menders import ALIKE_IN_CASE
from mere.sql.duckdb.translate import ENGINE, FILE, proven
from tests.lake.proof.both import Both, prepare, translated, understood
from tests.lake.proof.cases import cases
from tests.lake.proof.engines import InDuckdb
from tests.lake.proof.write import AT_ONCE, DOCUMENT, document, prove, text


def test_every_line_is_proven_by_a_case_and_in_order() -> None:
    """A line that somebody wrote by hand has no case that proves it."""
    used: dict[str, str] = {}
    for case in cases():
        used |= understood(case, ENGINE) or {}
    assert text(used) == FILE.read_text(encoding="utf-8")


def test_the_page_lists_what_the_file_says() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(proven().forms, "DuckDB")


@pytest.fixture
def both(tmp_path: Path, spark_on: Callable[..., Session]) -> Iterator[Both]:
    with Lake.create(tmp_path / "lake") as lake:
        session = spark_on(lake, "main")
        before = {name: str(session.spark.conf.get(name)) for name in AT_ONCE}
        for name, value in AT_ONCE.items():
            session.spark.conf.set(name, value)
        prepare(session.spark)
        yield Both(session.spark, InDuckdb(session.spark))
        for name, value in before.items():
            session.spark.conf.set(name, value)


def test_a_sample_of_the_cases_still_gives_the_same_values(both: Both) -> None:
    chosen = [case for case in cases() if understood(case, ENGINE) is not None]
    for case in random.Random(15).sample(chosen, 25):
        ours, _ = translated(case, ENGINE)
        assert both.differs(case, ours) is None, case


def test_letters_are_made_great_and_small_alike_wherever_that_is_not_left_to_spark(both: Both) -> None:
    every = "".join(chr(code) for code in range(1, 0x10000) if not 0xD800 <= code < 0xE000)
    letters = "select unnest(string_split(?, '')) as letter"
    alike = f"select string_agg(letter, '' order by letter) from ({letters}) where regexp_full_match(letter, ?)"
    assert isinstance(both.other, InDuckdb)
    connection = both.other.connection
    ((text_,),) = connection.execute(alike, [every, ALIKE_IN_CASE]).fetchall()
    assert len(text_) > 20_000
    ((upper, lower),) = connection.execute("select upper($1), lower($1)", [text_]).fetchall()
    theirs = both.spark.sql("select upper(:t), lower(:t)", args={"t": text_}).collect()
    assert (upper, lower) == tuple(theirs[0])


@pytest.mark.long
def test_all_of_the_file_is_what_the_cases_prove(both: Both) -> None:
    found, refused = prove(both, cases(), {})
    assert text(found) == FILE.read_text(encoding="utf-8")
    # One case never proves what another refutes.
    assert [case for case in refused if understood(case, ENGINE) is not None and "not know" not in refused[case]] == []

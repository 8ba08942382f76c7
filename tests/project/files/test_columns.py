"""What a model declares of its columns, and what is wrong with it."""

from __future__ import annotations

from datetime import timedelta
from textwrap import dedent

import pytest

from mere.project.check.check import check
from mere.project.model import Promise
from tests.project.conftest import MakeProject


def files(header: str) -> dict[str, str]:
    return {"models/s/t.sql": f"{dedent(header).strip()}\nSELECT 1 AS a, 2 AS b\n"}


def test_a_contract_short_and_long(project: MakeProject) -> None:
    folder = project(
        files(
            """
        -- columns: {a: {was: z, description: The first.}}
        -- contract:
        --   a: bigint
        --   b: {type: "decimal(12, 2)", nullable: false, description: The second.}
        """
        )
    )
    model = folder.model("s.t")
    assert model.contract == {"a": Promise("bigint"), "b": Promise("decimal(12, 2)", nullable=False)}
    assert (model.columns, model.was) == ({"a": "The first.", "b": "The second."}, {"a": "z"})


def test_a_decorator_says_the_same(project: MakeProject) -> None:
    python = """
        from mere import model, table

        @model(
            "s.t", kind="incremental", time_column="at", context="2 weeks",
            columns={"total": {"was": "amount"}},
            contract={"at": "timestamp", "total": {"type": "bigint", "nullable": False}},
        )
        def t(raw=table("s.raw", time="at")):
            return raw
    """
    model = project({"models/s/t.py": python}).model("s.t")
    assert model.contract == {"at": Promise("timestamp"), "total": Promise("bigint", nullable=False)}
    assert model.was == {"total": "amount"}
    assert model.time
    assert model.time.context == timedelta(days=14)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("-- contract: {a: bigit, b: int}", "`bigit` is not a type"),
        ("-- contract: {a: {nullable: false}}", "the contract does not say the type of `a`"),
        ("-- contract: {a: {type: int, nullabel: false}}", "Did you mean `nullable`?"),
        ("-- contract: {a: int}\n-- columns: {b: text}", "`columns` names `b`, which the contract does not have."),
        ("-- columns: {a: {was: A}}", "`a` cannot have been `A` before: that is its name"),
        ("-- columns: {a: {was: z}, b: {was: Z}}", "both `a` and `b` were `Z` before"),
        ("-- columns: [a, b]", "`columns` must be a map of keys and values"),
        ("-- kind: view\n-- contract: {a: {type: int, nullable: false}}", "the model is a view, and keeps no rows"),
        ("-- context: 3 days", "`context` has no effect: the model is full"),
    ],
)
def test_what_is_wrong_is_told(project: MakeProject, header: str, said: str) -> None:
    problem = project(files(header)).problem()
    assert said in f"{problem} {problem.remedy}"


def test_check_holds_names_against_the_contract(project: MakeProject) -> None:
    header = "-- off: {missing-key: x, missing-audit: x}\n-- contract: {a: int, c: int}"
    found = [(each.line, each.message) for each in check(project(files(header)).path).findings]
    assert found == [
        (2, "`contract` names `c`, which s.t does not have."),
        (2, "`b` is not in the contract"),
    ]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("sources/bronze/x.yaml", "files: x-*.csv\ncolumns: {a: bigint, b: timestmp}\n"),
        ("sources/bronze/x.yaml", "files: x-*.csv\ncolumns: {a: bigint, b: {type: timestmp, from: c}}\n"),
        ("seeds/raw/x.yaml", "types: {a: bigint, b: timestmp}\n"),
    ],
)
def test_a_type_that_spark_does_not_have_is_found_without_spark(file: str, text: str, project: MakeProject) -> None:
    problem = project({file: text, "seeds/raw/x.csv": "a,b\n1,2\n"}).problem()
    assert "`timestmp` is not a type" in problem.message
    assert (problem.file, problem.line) == (file, text.count("\n", 0, text.index("timestmp")) + 1)

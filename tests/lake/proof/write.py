"""Writes what is proven for each engine: `python -m tests.lake.proof.write [duckdb] [trino]`, or `make proven`."""

from __future__ import annotations

import re
import sys
import tempfile
import textwrap
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sqlglot.errors import SqlglotError

from mere.engine.translate import is_from_spark
from mere.sql.duckdb import translate as for_duckdb
from mere.sql.trino import translate as for_trino
from tests.lake.proof.both import Both, Recorder, prepare, translated
from tests.lake.proof.cases import cases
from tests.lake.proof.engines import InDuckdb

DOCUMENT = Path(__file__).parents[3] / "docs" / "proven.md"
TRINO_DOCUMENT = DOCUMENT.with_name("proven-trino.md")
# For some hundred rows, Spark needs neither compiled code nor several tasks.
AT_ONCE = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


_PAGES = {
    "DuckDB": """# SQL that views and audits can use without Spark

Look up here whether `mere sql`, the gateway and `mere audit` can run an expression of a view or audit without Spark.
They translate the forms below, and [refuse all others](sql.md#what-can-be-read). This page is generated: `make proven`
computes every case in Spark and in DuckDB, over NULL, empty, negative, NaN, huge and non-ASCII values and times, and
lists what gave the same result everywhere.

`decimal` stands for any precision; doubles agree up to rounding in the twelfth digit; dates and times are in the years
10 to 9990. Operators have sqlglot's names: `add`, `eq`, `lte`, `nullsafeeq` (`<=>`). `… over` is a window function
with its frame.

## Functions and operators

Each with the types of its arguments.

""",
    "Trino": """# SQL of views that Trino can read

Look up here whether a [view](kinds.md#view) can be [read from Trino](trino.md#views). mere translates the forms below,
and refuses all others. This page is generated: `make proven` computes every case in Spark and in Trino, over NULL,
empty, negative, NaN, huge and non-ASCII values and times, and lists what gave the same result everywhere.

`decimal` stands for any precision; doubles agree up to rounding in the twelfth digit; dates and times are in the years
10 to 9990. Operators have sqlglot's names: `add`, `eq`, `lte`, `nullsafeeq` (`<=>`). `… over` is a window function
with its frame.

## Functions and operators

Each with the types of its arguments.

""",
}


def prove(both: Both, tried: Iterable[str], proven: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The forms that gave the same values everywhere, with their types; and of the other cases, why not."""
    refused: dict[str, str] = {}
    refuted: set[str] = set()
    for case in tried:
        recorder = Recorder(both, proven)
        why = _tried(both, case, recorder)
        if why is None and not refuted & recorder.used.keys():
            proven.update(recorder.used)
            continue
        refused[case] = why or "it stands on what another case refutes"
        calls = [form for form in recorder.used if "(" in form]
        if refused[case].startswith("differs") and calls and recorder.used.keys() - proven.keys() <= {calls[-1]}:
            # The outermost is to blame: all that it stands on is proven. What one case refutes, no other one proves.
            refuted.add(calls[-1])
            proven.pop(calls[-1], None)
    return proven, refused


def _tried(both: Both, case: str, recorder: Recorder) -> str | None:
    try:
        types = both.types(case)
    except Exception as error:
        if not is_from_spark(error):
            raise
        return "Spark does not know it"
    try:
        ours, inferred = translated(case, both.engine, recorder)
    except (SqlglotError, ValueError, AssertionError) as error:
        return f"not translated: {str(error).splitlines()[0]}"
    if [each for each in inferred if each != "void"] != [each for each in types if each != "void"]:
        return f"differs: the types are {types}, and not {inferred}"
    different = both.differs(case, ours)
    return f"differs: {different}" if different else None


def text(proven: dict[str, str]) -> str:
    return "".join(f"{form}\t{type_}\n" for form, type_ in sorted(proven.items()))


def document(proven: dict[str, str], engine: str) -> str:
    """docs/proven.md, or docs/proven-trino.md: each function, operator and clause with the types of its arguments."""
    calls: dict[str, list[str]] = defaultdict(list)
    clauses: list[str] = []
    for form in sorted(proven):
        found = re.match(r"([\w ]+)\((.*)\)(.*)$", form)
        if found is None:
            clauses.append(form)
        else:
            calls[f"{found[1]}{found[3]}"].append(found[2] or "()")
    lines = [_wrapped(f"- `{name}`: ", kinds) for name, kinds in calls.items()]
    return _PAGES[engine] + "\n".join(lines) + "\n\n## Clauses\n\n" + _wrapped("", clauses) + "\n"


def _wrapped(begin: str, forms: list[str]) -> str:
    text = begin + ", ".join(f"`{form}`" for form in forms)
    indent = "  " if begin else ""
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def main(*engines: str) -> None:
    from mere import Lake, session
    from tests.lake.proof.served import in_trino
    from tests.services.trino import Trino

    with tempfile.TemporaryDirectory() as folder, Lake.create(Path(folder) / "lake") as lake:
        with session(lake, "main") as opened:
            spark: Any = opened.spark
            for name, value in AT_ONCE.items():
                spark.conf.set(name, value)
            prepare(spark)
            if "duckdb" in engines:
                _write(Both(spark, InDuckdb(spark)), for_duckdb.FILE, DOCUMENT)
            if "trino" in engines:
                server = Trino(Path(folder) / "trino")
                server.start()
                try:
                    with in_trino(server, lake, spark) as trino:
                        _write(Both(spark, trino), for_trino.FILE, TRINO_DOCUMENT)
                finally:
                    server.stop()


def _write(both: Both, file: Path, page: Path) -> None:
    proven, refused = prove(both, cases(), {})
    file.write_text(text(proven), encoding="utf-8")
    page.write_text(document(proven, both.engine.name), encoding="utf-8")
    for case, why in refused.items():
        print(f"{case}\n    {why}")
    print(f"{both.engine.name}: {len(proven)} forms are proven; {len(refused)} cases are not")


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["duckdb", "trino"]))

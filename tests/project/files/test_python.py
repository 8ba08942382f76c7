from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from mere.errors import ConfigError
from mere.names import TableName
from mere.project import functions
from mere.project.functions import function
from mere.project.kinds import Kind
from mere.project.model import Input, OnChange, Python
from mere.windows import Grain
from tests.project.conftest import MakeProject, ProjectFolder

FILE = "models/silver/trips.py"
TRIPS = """
from mere import model, table


@model(
    "silver.trips",
    kind="incremental",
    time_column="picked_up_at",
    grain="month",
    audits=[{"assert": "fare >= 0", "severity": "warn"}],
    columns={"fare": "in dollars"},
    batch=12,
)
def trips(
    raw=table("bronze.trips", time="at"),
    zones=table("seeds.zones", on_change="rebuild"),
):
    return raw
"""


def test_a_model_is_read_from_its_decorator_and_its_parameters(project: MakeProject) -> None:
    model = project({FILE: TRIPS}).model("silver.trips")
    assert (model.kind, model.file) == (Kind.INCREMENTAL, FILE)
    assert model.inputs == (
        Input(TableName("bronze", "trips"), 14, "at"),
        Input(TableName("seeds", "zones"), 15, None, OnChange.REBUILD),
    )
    assert isinstance(model.body, Python)
    assert model.body.parameters == (("raw", TableName("bronze", "trips")), ("zones", TableName("seeds", "zones")))
    assert (model.body.function, model.body.line, model.body.takes_now) == ("trips", 13, False)
    assert model.time is not None
    assert (model.time.grain, model.time.batch) == (Grain.MONTH, 12)
    assert model.columns == {"fare": "in dollars"}
    assert [(str(audit), audit.line) for audit in model.audits] == [("assert(fare >= 0)", 9)]


def test_a_file_may_hold_several_models_and_none(project: MakeProject) -> None:
    graph = project(
        {
            "models/silver/all.py": """
            import mere
            from mere import table as rows

            @mere.model("silver.a")
            def a(x=rows("bronze.x"), *, spark, limit=7): return x

            @mere.model("silver.b", now="day")
            def b(now, y=mere.table("silver.a")): return y
            """,
            "models/silver/helpers.py": "def model(name): return name\n@model\ndef f(x): return x\n",
        }
    ).load()
    assert [str(name) for name in graph.models] == ["silver.a", "silver.b"]
    bodies = [model.body for model in graph.models.values() if isinstance(model.body, Python)]
    assert [(body.takes_now, body.takes_spark) for body in bodies] == [(False, True), (True, False)]


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ('kind="incremental"', "kind=KIND", 6, "`kind` must be written out"),
        ('"silver.trips"', 'f"{x}.trips"', 5, "the model's name` must be written out"),
        ('"silver.trips"', '"Silver.trips"', 4, "cannot be a model's name"),
        ('"silver.trips"', '"gold.trips"', 4, "in the folder of another schema"),
        ('kind="incremental"', 'kind="view"', 4, "a view is SQL"),
        ('kind="incremental"', 'knd="incremental"', 6, "unknown key `knd`"),
        ('grain="month"', 'grain="minute"', 8, "`grain` cannot be `minute`"),
        ('"bronze.trips"', '"main.bronze.trips"', 14, "a ref is never written"),
        ('"bronze.trips"', '"trips"', 14, "is not a table name"),
        ('"bronze.trips"', "SOURCE", 14, "the table's name` must be written out"),
        ('time="at"', 'tiem="at"', 14, "unknown key `tiem`"),
        ('"seeds.zones"', '"bronze.trips"', 15, "bronze.trips is the input of two parameters"),
        (', on_change="rebuild"', "", 15, "which windows a change of seeds.zones touches"),
        ('on_change="rebuild"', 'on_change="maybe"', 15, "`on_change` cannot be `maybe`"),
        ('on_change="rebuild"', 'new_rows=True', 15, "`new_rows` of seeds.zones has no effect"),
        ('raw=table("bronze.trips", time="at")', "raw", 14, "what to pass to the parameter `raw`"),
        ('raw=table("bronze.trips", time="at")', "now", 13, "the parameter `now` needs a precision"),
        ("return raw", "return (", 17, "not valid Python"),
        ("def trips(", "async def trips(", 13, "cannot be an async function"),
        ("batch=12", "**MORE", 11, "must be written out"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(project: MakeProject, old: str, new: str, line: int, what: str) -> None:
    assert old in TRIPS
    problems = project({FILE: TRIPS.replace(old, new)}).problems()
    assert [each.line for each in problems if what in each.problem] == [line], [str(each) for each in problems]


def test_a_decorator_without_a_name(project: MakeProject) -> None:
    problem = project({FILE: "from mere import model\n@model\ndef trips(): ...\n"}).problem()
    assert (problem.line, problem.remedy) == (2, 'Write @model("schema.trips").')


# The fingerprint

BASE = {
    FILE: """
    import os
    from lib.clean import clean
    from .shared import FEE
    from mere import model, table

    LIMIT = 5

    def helper(x):
        return clean(x)

    @model("silver.trips", description="a")
    def trips(raw=table("bronze.trips")):
        'What it does.'
        return helper(raw).limit(LIMIT)

    @model("silver.others")
    def others(raw=table("bronze.trips")):
        return raw
    """,
    "lib/clean.py": "from lib.words import WORDS\ndef clean(x): return x\n",
    "lib/words.py": "WORDS = ['a']\n",
    "lib/unused.py": "X = 1\n",
    "models/silver/shared.py": "FEE = 1\n",
}


def code_after(folder: ProjectFolder, file: str, old: str, new: str) -> str:
    path = folder.path / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    return folder.model("silver.trips").code


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (FILE, "return helper(raw)", "return helper(raw).distinct()"),
        (FILE, "LIMIT = 5", "LIMIT = 6"),
        (FILE, "return clean(x)", "return clean(clean(x))"),
        (FILE, '"bronze.trips"', '"bronze.rides"'),
        ("lib/clean.py", "return x", "return x.distinct()"),
        ("lib/words.py", "'a'", "'b'"),
        ("models/silver/shared.py", "1", "2"),
    ],
)
def test_the_code_changes_with_all_that_the_model_runs(project: MakeProject, file: str, old: str, new: str) -> None:
    folder = project(BASE)
    before = folder.model("silver.trips").code
    assert code_after(folder, file, old, new) != before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (FILE, "LIMIT = 5", "LIMIT = (\n    5  # five\n)"),
        (FILE, "'What it does.'", '"""Something else."""'),
        (FILE, 'description="a"', 'description="b", tags=["x"]'),
        (FILE, "    return raw\n", "    return raw.distinct()\n"),  # another model's
        ("lib/clean.py", "return x", "return (x)  # as it is"),
        ("lib/unused.py", "X = 1", "X = 2"),
    ],
)
def test_the_code_stays_whatever_does_not_run(project: MakeProject, file: str, old: str, new: str) -> None:
    folder = project(BASE)
    before = folder.model("silver.trips").code
    assert code_after(folder, file, old, new) == before


CALLS = """
from mere import model, table

def helper(x):
    return {helper}

@model("silver.trips")
def trips(raw=table("bronze.trips")):
    return {trips}

@model("silver.others", description="a")
def others(raw=table("bronze.trips")):
    return far(raw)

@model("silver.far")
def far(raw=table("bronze.trips")):
    return raw.limit(1)
"""


@pytest.mark.parametrize(
    ("helper", "trips", "is_called"),
    [
        ("x", "others(raw)", True),
        ("x", "raw.transform(lambda rows: others(rows))", True),
        ("others(x)", "helper(raw)", True),
        ("x", "[others for others in raw]", False),
        ("x", "(lambda others: others)(raw)", False),
        ("x", "raw.others", False),
    ],
)
def test_the_code_changes_with_another_model_that_it_calls(
    project: MakeProject, helper: str, trips: str, is_called: bool
) -> None:
    folder = project({FILE: CALLS.format(helper=helper, trips=trips)})
    before = folder.model("silver.trips").code
    assert code_after(folder, FILE, 'description="a"', 'description="b"') == before
    assert (code_after(folder, FILE, "raw.limit(1)", "raw.limit(2)") != before) is is_called


def test_a_parameter_that_is_called_like_another_model_is_not_that_model(project: MakeProject) -> None:
    folder = project(
        {
            FILE: """
            from mere import model, table

            @model("silver.orders")
            def orders(raw=table("bronze.orders")): return raw

            @model("silver.trips")
            def trips(orders=table("silver.orders")): return orders
            """
        }
    )
    before = folder.model("silver.trips").code
    assert code_after(folder, FILE, "return raw", "return raw.limit(1)") == before


def test_a_module_that_appears_changes_the_code(project: MakeProject) -> None:
    folder = project({**BASE, "lib/words.py": "WORDS = []\nimport extra\n"})
    before = folder.model("silver.trips").code
    folder.write({"extra.py": "X = 1\n"})
    assert folder.model("silver.trips").code != before


def test_the_fingerprint_is_the_same_under_every_python(project: MakeProject) -> None:
    """A constant: what changes it would rebuild every Python model of every lake."""
    code = """
    from mere import model, table

    @model("silver.x")
    def x(raw=table("bronze.x"), *, spark):
        return raw.where(f"a > {1.5:.1f} or b = {'x'!r}").drop("c") if raw else [None, True, b"z", ...]
    """
    model = project({"models/silver/x.py": code}).model("silver.x")
    assert model.code == "e1f97c14052ef07651402992a282895cd836a5592bf2ae4ce7428d57e170b314"


# Running


def test_the_function_runs_with_its_modules(project: MakeProject) -> None:
    folder = project(
        {
            FILE: """
            from mere import model, table
            from lib.clean import clean
            from .shared import FEE

            @model("silver.trips")
            def trips(raw=table("bronze.trips")):
                return clean(raw) + FEE
            """,
            "lib/clean.py": "def clean(x): return x * 2\n",
            "models/silver/shared.py": "FEE = 1\n",
        }
    )
    trips = function(folder.path, folder.model("silver.trips"))
    assert trips(10) == 21
    assert function(folder.path, folder.model("silver.trips")) is trips
    folder.write({"lib/clean.py": "def clean(x): return x * 3\n", "models/silver/shared.py": "FEE = 2\n"})
    assert function(folder.path, folder.model("silver.trips"))(10) == 32


def test_two_projects_in_one_process_do_not_mix(tmp_path: Path) -> None:
    found = []
    for name in ("one", "two", "one"):
        folder = ProjectFolder(tmp_path / name).write(
            {
                "models/a/x.py": "from mere import model\nfrom lib import NAME\n@model('a.x')\ndef x(): return NAME\n",
                "lib/__init__.py": f"NAME = {name!r}\n",
            }
        )
        found.append(function(folder.path, folder.model("a.x"))())
    assert found == ["one", "two", "one"]


def test_the_hundredth_project_of_a_process_costs_what_the_first_one_does(
    project: MakeProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = {(tmp_path / f"shop{number}", FILE, "trips", ""): print for number in range(2000)}
    monkeypatch.setattr(functions, "_loaded", dict(many))
    folder = project({"models/a/x.py": "from mere import model\n@model('a.x')\ndef x(): return 1\n"})
    before = time.thread_time()
    assert function(folder.path, folder.model("a.x"))() == 1
    assert time.thread_time() - before < 1  # comparing paths with each other took 10 s


def test_a_function_goes_to_workers_that_do_not_have_the_project(project: MakeProject, tmp_path: Path) -> None:
    from pyspark import cloudpickle

    folder = project(
        {
            "models/a/x.py": """
            from lib.clean import clean
            from mere import model

            def row(value): return clean(value)

            @model("a.x")
            def x(): return row
            """,
            "lib/clean.py": "def clean(x): return x * 2\n",
        }
    )
    row = function(folder.path, folder.model("a.x"))()
    (tmp_path / "row").write_bytes(cloudpickle.dumps(row))
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb'))(21))"
    command = [sys.executable, "-c", code, str(tmp_path / "row")]
    assert subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout == "42\n"


def test_an_import_that_fails_names_the_line(project: MakeProject) -> None:
    folder = project({"models/a/x.py": "from mere import model\nimport nowhere\n@model('a.x')\ndef x(): ...\n"})
    with pytest.raises(ConfigError, match=r"models/a/x.py:2: it cannot be imported: ModuleNotFoundError"):
        function(folder.path, folder.model("a.x"))


def test_loading_does_not_run_the_users_code(project: MakeProject) -> None:
    folder = project({"models/a/x.py": "from mere import model\n@model('a.x')\ndef x(): ...\nraise SystemExit(9)\n"})
    assert str(folder.model("a.x")) == "a.x"


def test_a_table_outside_of_a_run_says_so() -> None:
    from mere import model, table

    @model("a.x")
    def x(raw: object = table("bronze.x")) -> object:
        return raw.where("a > 1")  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match=r"outside of a run there are no rows"):
        x()


def test_decorators_and_headers_know_the_same_settings() -> None:
    import inspect

    from mere import model
    from mere.project.files.settings import MODEL_KEYS

    assert {*inspect.signature(model).parameters} == {"name", *MODEL_KEYS} - {"inputs"}

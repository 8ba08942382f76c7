"""A repository of somebody else's can be checked and planned: nothing of it runs, and nothing beside it is shown."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mere.cli import main
from mere.lake.lake import Lake

HOSTILE = "import os, pathlib\npathlib.Path({marker!r}).write_text('ran')\n"


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "ran"


@pytest.fixture
def folder(tmp_path: Path, marker: Path) -> Path:
    """Code in every place where Python, YAML or Jinja could run some."""
    folder = tmp_path / "project"
    touch = f"__import__('pathlib').Path({str(marker)!r}).write_text('ran')"
    code = HOSTILE.format(marker=str(marker))
    files = {
        "mere.yaml": "name: hostile\n",
        "models/gold/python.py": code
        + "from mere import model, table\n@model('gold.python', kind='full')\n"
        + f"def python(raw=table('gold.plain'), other={touch}):\n    {touch}\n    return raw\n",
        "models/gold/helper.py": code,
        "models/gold/plain.sql": "-- kind: full\nSELECT 1 AS id\n",
        "models/__init__.py": code,
        "sources/python.py": code,
        "conftest.py": code,
        "sitecustomize.py": code,
        "usercustomize.py": code,
        "yaml.py": code,
        "click.py": code,
        "sqlglot.py": code,
        "tests/test_hostile.py": code,
        ".pth": f"import os; {touch}\n",
        "mere.pth": f"import os; {touch}\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    Lake.create(folder / "lake").close()
    return folder


def typed(folder: Path, *arguments: str) -> str:
    """In a process of its own, which begins where the files are."""
    command = [os.fspath(Path(sys.executable).parent / "mere"), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def mere(folder: Path, *arguments: str) -> str:
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        done = CliRunner().invoke(main, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return str(done.output)


def test_neither_check_nor_plan_runs_code_of_a_project(folder: Path, marker: Path) -> None:
    for command in ("check", "plan"):
        said = typed(folder, command)
        assert not marker.exists(), said
    assert "gold.plain" in said
    for command in ("manifest", "lineage"):
        mere(folder, command)
        assert not marker.exists(), command


TEMPLATES = (
    "{{ cycler.__init__.__globals__.os.system(COMMAND) }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ var.__globals__['__builtins__']['open'](MARKER, 'w') }}",
    "{{ lipsum.__globals__['os'].popen(COMMAND).read() }}",
    "{% import 'os' as os %}{{ os.system(COMMAND) }}",
    "{% include '/etc/passwd' %}",
)


@pytest.mark.parametrize("place", ["models/gold/template.sql", "macros/hostile.sql"])
def test_templates_reach_nothing_of_the_system(folder: Path, marker: Path, place: str) -> None:
    path = folder / place
    path.parent.mkdir(exist_ok=True)
    for template in TEMPLATES:
        text = template.replace("COMMAND", repr(f"touch {marker}")).replace("MARKER", repr(str(marker)))
        is_macro = place.startswith("macros")
        head, tail = ("{% macro hostile() %}", "{% endmacro %}") if is_macro else ("-- kind: full\n", "")
        path.write_text(f"{head}SELECT '{text}' AS x{tail}")
        (folder / "models/gold/caller.sql").write_text("-- kind: full\nSELECT {{ hostile() }} AS x\n")
        for command in ("check", "plan"):
            said = mere(folder, command)
            assert "root:" not in said, text
            assert not marker.exists(), text


@pytest.mark.parametrize(
    "text",
    [
        "name: !!python/object/apply:os.system ['touch MARKER']\n",
        "name: hostile\nvars: {x: !!python/object/new:os.system ['touch MARKER']}\n",
        "name: hostile\nvars: {x: !!python/name:os.system }\n",
        "name: hostile\nvars: &a [*a, *a]\n",
        "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nname: *b\n",
    ],
)
@pytest.mark.parametrize("file", ["mere.yaml", "sources/hostile.yaml", "tests/hostile.yaml"])
def test_yaml_makes_no_objects(folder: Path, marker: Path, file: str, text: str) -> None:
    (folder / file).write_text(text.replace("MARKER", str(marker)))
    for command in ("check", "plan"):
        mere(folder, command)
        assert not marker.exists()


def test_what_a_link_leads_to_is_not_shown(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "credentials"
    secret.write_text("aws_secret_access_key = hush-hush\npassword: hush-hush\n- hush-hush\n")
    for name in ("models/gold/x.sql", "macros/x.sql", "sources/x.yaml", "tests/x.yaml", "audits/x.sql", "seeds/x.csv"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).symlink_to(secret)
    for command in ("check", "plan"):
        assert "hush-hush" not in mere(folder, command)

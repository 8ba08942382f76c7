"""What is not YAML or JSON is told in plain words: where, what was found, how to mend it, and no word of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from mere.entries import parse, read
from mere.errors import ConfigError, ProjectError
from mere.project.load import load
from mere.serve.access.users import Users
from mere.serve.roles import file as rolefile

YAML = {
    "columns: {id: bigint total: double}\n": ("1:27", "a `,` or a `}` is missing before this", "commas"),
    "key: [id, name\nkind: full\n": ("1:6", "a `[` is opened here and not closed", "`]`"),
    "key: [id": ("1:6", "a `[` is opened here and not closed", "`]`"),
    "a: {x: 1\nb: 2\n": ("1:4", "a `{` is opened here and not closed", "`}`"),
    "a: [x: 1, y}]\n": ("1:12", "there is a `}`, and what is open is a `[`", "`]`"),
    "a: }\n": ("1:4", "there is a `}` where a value should be", "Write the value"),
    "a: [1,,2]\n": ("1:7", "there is a `,` where a value should be", "Write the value"),
    "description: first: second\n": ("1:19", "there is a `:` where no key is allowed", "in quotes"),
    "a:\n\tb: 1\n": ("2:1", "there is a tab", "spaces"),
    "a:\n  b: 1\n c: 2\n": ("3:2", "not indented as those beside it", "Indent"),
    "audits:\n  - unique: id\n   - not_null: x\n": ("3:4", "not indented as those beside it", "Indent"),
    "a: 1\n- b\n": ("2:1", "an item of a list is among keys", "remove the `-`"),
    "a: 'x\nb: 2\n": ("1:4", "a quote is opened here and never closed", "Close it"),
    'a: "x" y\nb: 1\n': ("1:8", "there is more after the end of a value in quotes", "whole value"),
    'a: "\\d"\n': ("1:6", "a backslash in double quotes", "single quotes"),
    "a: @secret\n": ("1:4", "a value cannot begin with `@`", "in quotes"),
    "a: %secret\n": ("1:4", "a value cannot begin with `%`", "in quotes"),
    "a: *secret\n": ("1:4", "a `*` at the beginning of a value", "in quotes"),
    "columns: *\n": ("1:11", "a `*` at the beginning of a value", "in quotes"),
    "a: &secret 1\nb: &secret 2\n": ("2:4", "a `&` at the beginning of a value", "in quotes"),
    "a: !<secret x\n": ("1:4", "a `!` at the beginning of a value", "in quotes"),
    "a: 1\nsecret\nb: 2\n": ("2:1", "a line is neither `key: value` nor an item of a list", "Write a `:`"),
    "a: |secret\n  y\n": ("1:5", "after `|` or `>` the text begins in the next line", "Break the line"),
    "a: 1\n---\nb: 2\n": ("2:1", "`---` begins a second document", "Remove"),
    "%YAML 3.0\n---\na: 1\n": ("1:1", "a line that begins with `%` or `---`", "Remove"),
    "a: 1\nb: x\x01\n": ("2:5", "a control character (number 1)", "Remove"),
}


@pytest.mark.parametrize("text", YAML)
def test_yaml(text: str) -> None:
    place, message, remedy = YAML[text]
    with pytest.raises(ConfigError) as refused:
        parse(text, Path("mere.yaml"))
    said = refused.value
    assert str(said).startswith(f"mere.yaml:{place}: not valid YAML: ")
    assert message in said.message
    assert remedy in str(said.remedy)
    assert "secret" not in f"{said} {said.__cause__} {'' if said.__suppress_context__ else said.__context__}"


JSON = {
    '{"ann": "x" "bob": "y"}': ("1:13", "a `,` is missing", "commas"),
    '{"ann" "x"}': ("1:8", "a `:` is missing", '"name": "value"'),
    '{\n  ann: "x"}': ("2:3", "a name in double quotes", "double quotes"),
    '{"ann": }': ("1:9", "a value here", "Write a text"),
    '{"ann": "secret': ("1:9", "a quote is opened here and never closed", "Close it"),
    '{"ann": "a\nb"}': ("1:11", "a control character", r"\n"),
    '{"ann": "x"} secret': ("1:14", "more after the end", "remove the rest"),
}


@pytest.mark.parametrize("text", JSON)
def test_json(text: str, tmp_path: Path) -> None:
    place, message, remedy = JSON[text]
    file = tmp_path / "users.json"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(ConfigError) as refused:
        Users(file).names()
    assert str(refused.value).startswith(f"{file}:{place}: not valid JSON: ")
    assert message in refused.value.message
    assert remedy in str(refused.value.remedy)
    assert "secret" not in str(refused.value).removeprefix(str(file))


def test_every_file_of_a_project_names_its_line_and_column(tmp_path: Path) -> None:
    files = {
        "models/gold/a.sql": "-- kind: full\n-- audits: [unique: id}\nSELECT 1 AS id\n",
        "sources/bronze/b.yaml": "files: data/*.csv\ncolumns: {id: bigint name: string}\n",
        "seeds/raw/c.yaml": "key: 'id\n",
        "audits/d.sql": "-- description: a: b\nSELECT 1\n",
    }
    for name, text in {"mere.yaml": "name: shop\n", "seeds/raw/c.csv": "id\n1\n", **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=r"audits/d.sql:1:18: not valid YAML: "):
        load(tmp_path)
    (tmp_path / "audits/d.sql").unlink()
    with pytest.raises(ProjectError) as refused:
        load(tmp_path)
    found = [str(each) for each in refused.value.problems]
    places = ("models/gold/a.sql:2:23", "seeds/raw/c.yaml:1:6", "sources/bronze/b.yaml:2:26")
    for place in places:
        assert any(f"{place}: not valid YAML: " in each for each in found), (place, found)


def test_roles_and_bytes(tmp_path: Path) -> None:
    file = tmp_path / "roles.yaml"
    file.write_text("roles:\n  ann: {refs: [main}\n")
    with pytest.raises(ConfigError, match=r"roles.yaml:2:20: not valid YAML: there is a `}`"):
        rolefile.load(file)
    file.write_bytes(b"roles:\n  ann: \xff\n")
    with pytest.raises(ConfigError, match=r"roles.yaml:2:8: not UTF-8 text"):
        read(file)

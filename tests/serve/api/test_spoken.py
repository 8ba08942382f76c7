"""What is said for the command line is said over HTTP in requests, which work as they stand."""

from __future__ import annotations

import ast
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest

import mere
from mere.cli import main
from mere.serve.api.spoken import _ONLY_THERE, _REQUESTS, HERE, spoken
from mere.serve.api.verb import Verb
from mere.serve.api.verbs import VERBS
from mere.serve.http.errors import on_one_line

SOURCE = Path(mere.__file__).parent
PARTS = ("lake", "pipeline", "project", "sources", "audits", "sql", "api", "serve/api", "serve/http", "engine")
START = next(verb for verb in VERBS if verb.name == "runs_start")
REQUEST = re.compile(r"\b(GET|POST|DELETE) (/[\w/{}.:~@*…-]+)(?:\?([^\s,;)]+))?((?: \{.*?\})?)(?=$|[\s.,;:)])")
COMMAND = re.compile(rf"\bmere (?:{'|'.join(sorted((*_REQUESTS, *_ONLY_THERE), key=len, reverse=True))})\b")


@pytest.mark.parametrize(
    ("told", "over_http"),
    [
        ("Undo that and resume: mere run --resume 3fa9", "Undo that and resume: POST /runs/3fa9/resume"),
        (
            "mere run --full-refresh a.b   to rebuild",
            'POST /runs {"full_refresh": true, "select": ["a.b"]}   to rebuild',
        ),
        (
            "mere run --select a.b && mere run --full-refresh c.d",
            'POST /runs {"select": ["a.b"]} && POST /runs {"full_refresh": true, "select": ["c.d"]}',
        ),
        ("mere run --on dev --accept a.b   to skip", 'POST /runs {"on": "dev", "accept": ["a.b"]}   to skip'),
        ("mere plan --accept a.b", 'POST /runs {"accept": ["a.b"]}'),
        ("mere run --limit-windows=3 --no-check", 'POST /runs {"limit_windows": 3, "check": false}'),
        ("See mere log dev.", "See GET /refs/dev/log."),
        ("See mere log.", "See GET /refs/main/log."),
        ("see mere log and mere branch list.", "see GET /refs/main/log and GET /refs?kind=branch."),
        ("If it is not to finish: mere runs end 3fa9", "If it is not to finish: POST /runs/3fa9/cancel"),
        ("mere revert abcdef --on dev", 'POST /revert {"commit": "abcdef", "on": "dev"}'),
        ("mere revert --to COMMIT", 'POST /revert {"to": "COMMIT"}'),
        (
            "mere branch create fix --from main, then mere run --on fix",
            'POST /branches {"name": "fix", "at": "main"}, then POST /runs {"on": "fix"}',
        ),
        ("mere publish dev --dry-run", 'POST /publish {"branch": "dev", "dry_run": true}'),
        ("mere diff main dev --rows", "GET /diff?from=main&to=dev&rows=true"),
        ("mere audit a.b c.* --at dev", "GET /audits?select=a.b&select=c.*&at=dev"),
        ("or --sample 1%", "or `sample` 1%"),
        # there are no verbs for these
        ("Bring it in: mere branch update dev", f"Bring it in: mere branch update dev {HERE}"),
        ("mere sql --at run_1 'from a.b'", f"mere sql --at run_1 'from a.b' {HERE}"),
        # told, and not to be typed
        ("mere gc deletes what nobody needs", "mere gc deletes what nobody needs"),
        ("mere check finds 3 errors", "mere check finds 3 errors"),
    ],
)
def test_commands_are_said_as_requests(told: str, over_http: str) -> None:
    assert spoken(told, START) == over_http


def test_what_is_long_is_not_looked_through() -> None:
    """A name that a client has sent stands in messages, and could look like a command without an end."""
    began = time.monotonic()
    assert len(spoken("There is no run mere log " + "a." * 30_000 + "!", START)) < 3000
    assert time.monotonic() - began < 5


def test_lines_become_sentences_on_one() -> None:
    told = "a.b may not:\n  mere run   to start over\nmere plan --accept a.b   to take it\nNothing was run.\n\nSee it"
    assert on_one_line(told) == (
        "a.b may not: mere run to start over; mere plan --accept a.b to take it; Nothing was run. See it"
    )


def test_every_command_is_known() -> None:
    """A new one is a verb, or is told to be on the command line."""
    known = {*_REQUESTS, *_ONLY_THERE}
    for name in main.list_commands(None):  # type: ignore[arg-type]
        assert any(name in (each, each.partition(" ")[0]) for each in known), name


def test_whatever_is_told_with_a_command_works_over_http() -> None:
    """Taken from the source: all texts that name a command, with something in place of what is filled in."""
    found = [text for part in PARTS for file in (SOURCE / part).rglob("*.py") for text in texts(file)]
    assert len(found) > 60
    requests = 0
    for text in found:
        said = spoken(text, START)
        for method, path, query, body in REQUEST.findall(said):
            requests += 1
            check(method, path.rstrip("."), query.rstrip("."), body.strip())
        for line in said.split("\n"):
            for command in COMMAND.finditer(line.replace(HERE, "\0")):
                rest = line[command.end() :]
                by = line.endswith(" by ", 0, command.start())
                assert by or not re.match(r"$|[.,;:)]|  ", rest) or HERE in rest, (text, said)
    assert requests > 40


def check(method: str, path: str, query: str, body: str) -> None:
    verb = next(each for each in VERBS if each.method == method and fits(each, path))
    verb.asked(parse_qs(query) if query else {})
    verb.told(body.encode())
    assert not body or json.loads(body)


def fits(verb: Verb, path: str) -> bool:
    return re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", verb.path), path) is not None


def texts(file: Path) -> Iterator[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        text = None
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented | inner:
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            text = "".join(part.value if isinstance(part, ast.Constant) else "x.y" for part in node.values)  # type: ignore[misc]
        if text and COMMAND.search(text):
            yield text

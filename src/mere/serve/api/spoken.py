"""What the lake says for the command line, in the words of this API: its members for flags, its requests for commands.

A command for which there is no verb stays, and it is said where it belongs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mere.names import MAIN
from mere.serve.api.started import FLAGS
from mere.serve.http.errors import shortened

if TYPE_CHECKING:
    from mere.serve.api.verb import Verb

HERE = "(on the command line)"
_VALUE, _NUMBER, _LIST, _ON, _OFF = "value", "number", "list", "on", "off"
_ALONE = (_ON, _OFF, "")  # flags after which no value comes


@dataclass(frozen=True)
class _Request:
    """What says the same as a command, whose words go into the path where that names them, else the query or body."""

    method: str
    path: str
    first: Sequence[str] = ()  # what its words without a dash are; those that are also `given` may be left out
    more: str | None = None  # what further ones are
    flags: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # the member, and what comes with the flag
    given: Mapping[str, Any] = field(default_factory=dict)


def _values(*names: str) -> dict[str, tuple[str, str]]:
    return {name: (name, _VALUE) for name in names}


_KINDS = {
    "accept": _LIST, "full_refresh": _ON, "forward_only": _ON, "allow_breaking": _ON, "limit_windows": _NUMBER,
    "threads": _NUMBER,
}  # fmt: skip
_OF_RUNS = {flag.removeprefix("--"): (name, _KINDS.get(name, _VALUE)) for name, flag in FLAGS.items()}
_OF_RUNS |= {"select": ("select", _LIST), "no-check": ("check", _OFF), "resume": ("id", _VALUE)}
_RUN = _Request("POST", "/runs", more="select", flags=_OF_RUNS)
_RESUME = _Request("POST", "/runs/{id}/resume", flags=_OF_RUNS)
_REQUESTS: Mapping[str, _Request] = {
    "branch list": _Request("GET", "/refs", given={"kind": "branch"}),
    "branch create": _Request("POST", "/branches", ("name",), flags={"from": ("at", _VALUE)}),
    "branch delete": _Request("DELETE", "/branches/{name}", ("name",)),
    "tag list": _Request("GET", "/refs", given={"kind": "tag"}),
    "tag create": _Request("POST", "/tags", ("name",), flags=_values("at")),
    "tag delete": _Request("DELETE", "/tags/{name}", ("name",)),
    "log": _Request("GET", "/refs/{ref}/log", ("ref",), flags=_values("table"), given={"ref": MAIN}),
    "tables": _Request("GET", "/refs/{ref}/tables", flags={"at": ("ref", _VALUE)}, given={"ref": MAIN}),
    "show": _Request(
        "GET", "/refs/{ref}/tables/{table}", ("table",), flags={"at": ("ref", _VALUE)}, given={"ref": MAIN}
    ),
    "diff": _Request("GET", "/diff", ("from", "to"), flags={"rows": ("rows", _ON), **_values("table", "key")}),
    "publish": _Request(
        "POST", "/publish", ("branch",), flags={"dry-run": ("dry_run", _ON), **_values("into", "message")}
    ),
    "revert": _Request("POST", "/revert", more="commit", flags=_values("to", "on", "message")),
    "runs": _Request("GET", "/runs"),
    "runs show": _Request("GET", "/runs/{id}", ("id",)),
    "runs end": _Request("POST", "/runs/{id}/cancel", ("id",)),
    # A plan shows what a run with the same words would do: here the run alone can be asked for.
    "plan": _RUN,
    "run": _RUN,
    "audit": _Request("GET", "/audits", more="select", flags=_values("at")),
    "quarantine list": _Request("GET", "/quarantine", more="table", flags=_values("at")),
    "manifest": _Request("GET", "/manifest", flags=_values("at")),
}
_ONLY_THERE = (
    "branch update", "runs clean", "quarantine retry", "lake delete", "lake create", "user add", "token create",
    "token list", "token revoke", "init", "check", "test", "lineage", "growth", "sql", "serve", "connect", "drop",
    "rename", "adopt", "gc", "relocate", "engine", "java", "doctor", "generate",
)  # fmt: skip

_COMMAND = re.compile(rf"\bmere (?:({'|'.join(sorted((*_REQUESTS, *_ONLY_THERE), key=len, reverse=True))}))(?![\w-])")
_WORD = re.compile(r" ((?:'[^']*'|\"[^\"]*\"|[^\s'\"])+)")
# Where more words may come, prose may come, too.
_NAME = re.compile(r"[A-Z_]+|[\w:+*~@.-]*[.:+*~@\d][\w:+*~@.-]*|'[^']*'|main")
_CLOSES = re.compile(r"$|[.,;:)]|  | &&| --| and mere ")
_BETWEEN = ("&&", "and", "or")
_FLAG = re.compile(r"--([a-z]+(?:-[a-z]+)*)")


def spoken(text: str, verb: Verb) -> str:
    """What clients send comes back in messages, and may be long: no more is looked at than is told."""
    return "\n".join(_flags_named(_commands_said(line), verb) for line in shortened(text).split("\n"))


def _commands_said(line: str) -> str:
    said, at = [], 0
    for found in _COMMAND.finditer(line):
        if found.start() < at or line.endswith(" by ", 0, found.start()):  # who has done something
            continue
        name, end = found[1], found.end()
        words, end = _words(line, end, name)
        request = _said(name, words)
        if request is None and _CLOSES.match(line, end):
            request = f"{line[found.start() : end]} {HERE}"
        elif request is not None and not words and not _CLOSES.match(line, end):
            request = None  # it is told of, and not to be typed: «shown by mere log when …»
        if request is not None:
            said += [line[at : found.start()], request]
            at = end
    return "".join([*said, line[at:]])


def _words(line: str, at: int, name: str) -> tuple[list[str], int]:
    """Those that belong to the command, and where they end."""
    request = _REQUESTS.get(name)
    found: list[str] = []
    needed = [each for each in request.first if each not in request.given] if request else []
    value = False
    while word := _WORD.match(line, at):
        text = word[1].rstrip(".,;:)") or word[1]
        is_flag, after = text.startswith("-"), at + 1 + len(text)
        belongs = is_flag or value or needed or _NAME.fullmatch(text) or _CLOSES.match(line, after)
        if not belongs or "…" in text or text in _BETWEEN:
            break
        if not is_flag and not value:
            needed = needed[1:]
        value = is_flag and "=" not in text and _takes_value(request, text)
        found.append(text)
        at += 1 + len(text)
        if len(text) < len(word[1]):  # here a sentence ends
            break
    return found, at


def _takes_value(request: _Request | None, flag: str) -> bool:
    return request is None or request.flags.get(flag.lstrip("-"), ("", ""))[1] not in _ALONE


def _said(name: str, words: Sequence[str]) -> str | None:
    """None: no verb says this."""
    request = _REQUESTS.get(name)
    if request is _RUN and any(word.startswith("--resume") for word in words):
        request = _RESUME
    if request is None or (name == "plan" and not words):
        return None
    given, positions, rest = dict(request.given), list(request.first), iter(words)
    for word in rest:
        plain = word.strip("'\"")
        if word.startswith("-"):
            flag, _, value = word.lstrip("-").partition("=")
            member, kind = request.flags.get(flag, ("", ""))
            if not kind:
                return None
            if kind in _ALONE:
                given[member] = kind == _ON
                continue
            text = value or next(rest, "").strip("'\"")
            _give(given, member, int(text) if kind == _NUMBER and text.isdigit() else text, kind == _LIST)
        elif positions:
            _give(given, positions.pop(0), plain, False)
        elif request.more:
            _give(given, request.more, plain, request.more == "select")
        else:
            return None
    if name == "diff" and positions == ["to"]:
        given["to"] = given.pop("from")
    elif any(each not in given for each in positions):
        return None
    path = re.sub(r"\{(\w+)\}", lambda part: str(given.pop(part[1], part[0])), request.path)
    if request.method == "GET":
        pairs = [
            (key, each) for key, value in given.items() for each in (value if isinstance(value, list) else [value])
        ]
        query = "&".join(f"{key}={quote(_text(value), safe=':.~@*')}" for key, value in pairs)
        return f"GET {path}?{query}" if query else f"GET {path}"
    return f"{request.method} {path} {json.dumps(given)}" if given else f"{request.method} {path}"


def _give(given: dict[str, Any], member: str, value: Any, several: bool) -> None:
    given[member] = [*given.get(member, []), value] if several else value


def _text(value: Any) -> str:
    return "true" if value is True else str(value)


def _flags_named(text: str, verb: Verb) -> str:
    names = {flag.removeprefix("--"): name for name, flag in FLAGS.items()}
    given = {*verb.query, *(verb.body or {}).get("properties", ())}

    def named(flag: re.Match[str]) -> str:
        name = next((each for each in (names.get(flag[1]), flag[1].removeprefix("no-")) if each in given), None)
        return f"`{name}`" if name else flag[0]

    return text if HERE in text else _FLAG.sub(named, text)

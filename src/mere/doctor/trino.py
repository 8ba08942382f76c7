"""The Trino that the profile names: whether it answers, and whether it has this lake's main as a catalog."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from mere.config import default_author
from mere.doctor.context import Subject
from mere.doctor.findings import Verdict
from mere.names import MAIN

_SECONDS = 10.0
_MAKE = f"Make it a catalog: mere connect trino --ref {MAIN} (see docs/trino.md)"


def answers(subject: Subject) -> Verdict:
    url = _url(subject)
    try:
        found = _asked(Request(f"{url}/v1/info"), url)
    except (OSError, ValueError) as error:
        return Verdict.failed(f"{url} does not answer: {error}", "Start Trino, or write its address: trino: https://…")
    version = found.get("nodeVersion", {}).get("version", "unknown")
    if found.get("starting"):
        return Verdict.warn(f"Trino {version} at {url} is starting", "Wait a minute, and try again.")
    return Verdict(f"Trino {version} at {url}")


def catalog(subject: Subject) -> Verdict:
    """It shows the schemas that main has."""
    url = _url(subject)
    try:
        catalogs = _column(url, "SHOW CATALOGS")
        if MAIN not in catalogs:
            return Verdict.failed(f"it has no catalog {MAIN}, but {', '.join(sorted(catalogs)) or 'none'}", _MAKE)
        schemas = _column(url, f"SHOW SCHEMAS FROM {MAIN}")
    except HTTPError as error:
        if error.code in (401, 403):
            return Verdict.skipped("it wants a password, which the doctor does not have")
        return Verdict.failed(f"it answers with {error}", _MAKE)
    except (OSError, ValueError, RuntimeError) as error:
        return Verdict.failed(f"its catalog {MAIN} does not work: {error}", "Is mere serve running? " + _MAKE)
    wanted = {each.lower() for each in subject.lake.at(MAIN).namespaces}
    if missing := sorted(wanted - schemas):
        return Verdict.failed(f"its catalog {MAIN} has no schema {missing[0]}: it is another lake's", _MAKE)
    return Verdict(f"its catalog {MAIN} has the {len(wanted)} schemas of {MAIN}")


def _url(subject: Subject) -> str:
    assert subject.project is not None
    assert subject.project.trino is not None
    return subject.project.trino


def _column(url: str, query: str) -> set[str]:
    return {str(row[0]) for row in _rows(url, query)}


def _rows(url: str, query: str) -> Iterator[list[Any]]:
    headers = {"X-Trino-User": default_author()}
    page = _asked(Request(f"{url}/v1/statement", query.encode(), headers), url)
    deadline = time.monotonic() + _SECONDS
    while True:
        if "error" in page:
            raise RuntimeError(str(page["error"].get("message")).splitlines()[0])
        yield from page.get("data", ())
        if "nextUri" not in page:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"no answer in {_SECONDS:.0f} seconds")
        page = _asked(Request(page["nextUri"], headers=headers), url)


def _asked(request: Request, url: str) -> dict[str, Any]:
    """Only of the Trino that was named, wherever it sends us."""
    if urlsplit(request.full_url)[:2] != urlsplit(url)[:2]:
        raise ValueError(f"it refers to {request.full_url}")
    with urlopen(request, timeout=_SECONDS) as answer:
        found = json.loads(answer.read())
    if not isinstance(found, dict):
        raise ValueError("that is no Trino")
    return found

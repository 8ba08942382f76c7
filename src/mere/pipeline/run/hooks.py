"""Notifies somebody when a run ends: a command, with the run as JSON on its standard input, or a web address."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import orjson

from mere.config import Hook
from mere.errors import RunFailed, SourceError

_PATIENCE = 60.0  # seconds


def tell(hook: Hook, run: Mapping[str, Any]) -> None:
    """RunFailed if it could not be told; the run itself is over and stays what it is."""
    body = orjson.dumps(run)
    if hook.command:
        _call(hook.command, body)
    if hook.post:
        _post(hook.post, body)


def _call(command: str, body: bytes) -> None:
    try:
        done = subprocess.run(shlex.split(command), input=body, capture_output=True, timeout=_PATIENCE, check=False)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise RunFailed(f"The hook could not be run: {type(error).__name__}.") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise RunFailed(f"The hook ended with exit code {done.returncode}{f': {said[-1]}' if said else ''}.")


def _post(url: str, body: bytes) -> None:
    """The address may hold a token, so it is in no message."""
    from mere.sources.web.http import Client, Failure

    client = Client(_PATIENCE)
    try:
        with closing(client), client.ask("POST", url, {"Content-Type": "application/json"}, body=body) as answer:
            status = answer.status
    except (Failure, SourceError):
        raise RunFailed("The hook's web address could not be reached.") from None
    if not 200 <= status < 300:
        raise RunFailed(f"The hook's web address answered {status}.")

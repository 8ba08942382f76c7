"""mere: a lakehouse that starts as a folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from mere.engine import door, front

if TYPE_CHECKING:
    from mere.api.project import Project
    from mere.engine.session import Session, session
    from mere.errors import MereError
    from mere.lake.lake import Lake
    from mere.project.decorators import changes, model, source, table

__all__ = ["Lake", "MereError", "Project", "Session", "changes", "model", "session", "source", "table"]

_HOMES = {
    "Lake": "mere.lake.lake",
    "MereError": "mere.errors",
    "Project": "mere.api.project",
    "Session": "mere.engine.session",
    "changes": "mere.project.decorators",
    "model": "mere.project.decorators",
    "session": "mere.engine.session",
    "source": "mere.project.decorators",
    "table": "mere.project.decorators",
}


def _open_rest_catalog(lake: door.Lake, *, author: str, signs: bool, check: Callable[[], None]) -> door.Server:
    from mere.lake.lake import Lake
    from mere.serve.iceberg.own import OwnServer

    return OwnServer(cast(Lake, lake), author=author, signs=signs, check=check)


# The engine stands below the server that it needs for `catalog: rest`: they meet here.
door.opener = _open_rest_catalog


def _open_front(backend: front.Backend, terms: front.Terms) -> front.Front:
    from mere.serve.spark.front import opened

    return opened(backend, terms)


front.opener = _open_front


def __getattr__(name: str) -> Any:
    # Each public name is imported when it is first used, so that `import mere` costs next to nothing.
    if name not in _HOMES:
        raise AttributeError(f"module 'mere' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)

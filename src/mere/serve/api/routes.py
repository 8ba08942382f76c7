"""The verbs as routes under /api/v1, behind whatever lets requests in."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from mere.errors import MereError, ProjectError
from mere.serve.api.openapi import PATH as DESCRIPTION
from mere.serve.api.openapi import document
from mere.serve.api.spoken import spoken
from mere.serve.api.started import Starter
from mere.serve.api.verb import Call, Verb, decoded
from mere.serve.api.verbs import VERBS
from mere.serve.http.answering import Answer, Encoded, Threads
from mere.serve.http.errors import HttpError
from mere.text.values import plain

if TYPE_CHECKING:
    from mere.api.project import Project
    from mere.lake.lake import Lake

PATH = "/api/v1"
_THREADS = 8


def mounted(lake: Lake, project: Project | None = None, threads: int = _THREADS) -> Mount:
    """`project`: the one that the server was started in, if it was started in one."""
    answering, starter = Threads(threads), Starter()
    routes = [
        Route(verb.path, answering.endpoint(_answer(verb, lake, project, starter)), methods=[verb.method])
        for verb in VERBS
    ]
    described = orjson.dumps(document())
    routes.append(Route(DESCRIPTION, answering.endpoint(lambda _, __: _json(described)), methods=["GET"]))
    return Mount(PATH, app=Encoded(routes))


def _answer(verb: Verb, lake: Lake, project: Project | None, starter: Starter) -> Answer:
    def answer(request: Request, content: bytes) -> Response:
        given: dict[str, list[str]] = defaultdict(list)
        for name, value in request.query_params.multi_items():
            given[name].append(value)
        call = Call(
            lake,
            request.state.access,
            decoded(request.path_params),
            verb.asked(given),
            verb.told(content),
            request.state.about,
            project,
            starter,
        )
        try:
            found = verb.handler(call)
        except (HttpError, MereError) as error:
            _say(error, verb)
            raise
        return _json(orjson.dumps(found, default=plain), verb.status)

    return answer


def _say(error: HttpError | MereError, verb: Verb) -> None:
    """In the words of this API, also of each mistake in the files of a project."""
    error.message = spoken(error.message, verb)
    if isinstance(error, MereError):
        error.remedy = error.remedy and spoken(error.remedy, verb)
    for each in error.problems if isinstance(error, ProjectError) else ():
        each.problem, each.remedy = spoken(each.problem, verb), each.remedy and spoken(each.remedy, verb)


def _json(content: bytes, status: int = 200) -> Response:
    return Response(content, status, media_type="application/json")

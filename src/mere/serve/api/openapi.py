"""The API described for programs: an OpenAPI document, made of the table of verbs."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from mere.serve.api.schema import TEXT, Schema
from mere.serve.api.schema import ref as named
from mere.serve.api.shapes import SHAPES
from mere.serve.api.verb import Verb
from mere.serve.api.verbs import VERBS

PATH = "/openapi.json"
_REFUSALS = {
    "400": "The request is not valid; the message says why.",
    "401": "The caller is not logged in.",
    "403": "The caller's role does not allow it.",
    "404": "No such ref, table, run or verb.",
    "409": "Somebody else was faster, or it already exists.",
    "422": "The project, or what it reads, has errors; `problems` names the file and line of each.",
    "503": "The server or the lake is busy; try again after Retry-After.",
}


def document() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for verb in VERBS:
        paths.setdefault(verb.path, {})[verb.method.lower()] = _operation(verb)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "mere",
            "version": version("mere"),
            "description": "The verbs of a lake. Answers have the form of `--json`.",
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{"basic": []}, {"bearer": []}, {}],
        "paths": paths,
        "components": {
            "schemas": dict(SHAPES),
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
            "responses": {
                code: {"description": text, "content": _json(named("Error"))} for code, text in _REFUSALS.items()
            },
        },
    }


def _operation(verb: Verb) -> dict[str, Any]:
    path = [{"name": name, "in": "path", "required": True, "schema": TEXT} for name in verb.in_path]
    query = [{"name": name, "in": "query", "schema": each} for name, each in verb.query.items()]
    body = {"requestBody": {"content": _json(verb.body)}} if verb.body is not None else {}
    return {
        "operationId": verb.name,
        "summary": verb.summary,
        **({"parameters": [*path, *query]} if path or query else {}),
        **body,
        "responses": {
            str(verb.status): {"description": "Done.", "content": _json(verb.answer)},
            **{code: {"$ref": f"#/components/responses/{code}"} for code in _REFUSALS},
        },
    }


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}

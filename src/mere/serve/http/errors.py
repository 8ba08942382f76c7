"""Errors as HTTP clients get them, in the form of Iceberg's specification: a code, a type and a message."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from starlette.responses import Response

from mere.errors import (
    ConfigError,
    InvalidName,
    LakeConflict,
    LakeError,
    LakeUnreadable,
    LeaseHeld,
    MereError,
    MetadataMissing,
    NamespaceExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    ProjectError,
    ReadOnlyRef,
    RefExists,
    RefNotFound,
    RunNotFound,
    StorageDenied,
    StorageUnreachable,
    TableExists,
    TableNotFound,
    Unguarded,
    UsageError,
    ViewNotFound,
)
from mere.serve.protocol.port import PgError

_LOG = logging.getLogger(__name__)
_LONGEST = 2000  # letters of a message
_MOST = 100  # problems that are told one by one
_SOON = "1"  # seconds after which a client may ask again

# The first that fits. Clients act upon the code, and Iceberg's upon some of the types.
_KINDS: tuple[tuple[type[Exception], int, str], ...] = (
    (ViewNotFound, 404, "NoSuchViewException"),
    (TableNotFound, 404, "NoSuchTableException"),
    (NamespaceNotFound, 404, "NoSuchNamespaceException"),
    (RefNotFound, 404, "NoSuchWarehouseException"),
    (RunNotFound, 404, "NotFoundException"),
    (TableExists, 409, "AlreadyExistsException"),
    (NamespaceExists, 409, "AlreadyExistsException"),
    (RefExists, 409, "AlreadyExistsException"),
    (NamespaceNotEmpty, 409, "NamespaceNotEmptyException"),
    (LakeConflict, 409, "CommitFailedException"),
    (LeaseHeld, 409, "CommitFailedException"),
    (ReadOnlyRef, 403, "ForbiddenException"),
    (StorageDenied, 503, "ServiceUnavailableException"),
    (StorageUnreachable, 503, "ServiceUnavailableException"),
    (MetadataMissing, 404, "NotFoundException"),
    (LakeUnreadable, 503, "ServiceUnavailableException"),
    (Unguarded, 400, "BadRequestException"),
    (InvalidName, 400, "BadRequestException"),
    (UsageError, 400, "IllegalArgumentException"),
    (LakeError, 400, "BadRequestException"),
    # What is wrong is in the project, or in what it reads: neither the request nor the server is at fault.
    (MereError, 422, "UnprocessableEntityException"),
)
_BY_STATE = {
    "28P01": (401, "NotAuthorizedException"),
    "28000": (429, "TooManyRequestsException"),
    "57P03": (503, "ServiceUnavailableException"),
}


@dataclass
class HttpError(Exception):
    """An answer that is no success."""

    status: int
    type: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)
    problems: Sequence[Mapping[str, Any]] = ()  # in the files of a project, one by one

    def __str__(self) -> str:
        return self.message

    def body(self) -> bytes:
        told = {"message": shortened(self.message), "type": self.type, "code": self.status}
        return orjson.dumps({"error": {**told, **({"problems": self.problems} if self.problems else {})}})


def shortened(text: str) -> str:
    """What clients send comes back in messages, and may be long."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def on_one_line(text: str) -> str:
    """What was said in several lines, each a sentence or a part of one."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    ended = [line if line[-1] in ".,;:?!" else f"{line};" for line in lines[:-1]]
    return " ".join([*ended, *lines[-1:]])


def bad_request(message: str) -> HttpError:
    return HttpError(400, "BadRequestException", message)


def forbidden(message: str) -> HttpError:
    return HttpError(403, "ForbiddenException", message)


def unauthorized(message: str) -> HttpError:
    return HttpError(401, "NotAuthorizedException", message, _headers(401))


def of_any(error: Exception) -> HttpError:
    """What a client is told of it. A bug is logged, and the client learns no more than that there is one."""
    if isinstance(error, HttpError):
        return error
    if isinstance(error, PgError):
        status, type_ = _BY_STATE.get(error.sqlstate, (403, "ForbiddenException"))
        message = f"{error.message}. {error.hint}" if error.hint else error.message
        return HttpError(status, type_, message, _headers(status))
    for kind, status, type_ in _KINDS:
        if isinstance(error, kind):
            return HttpError(status, type_, on_one_line(str(error)), _headers(status), _problems(error))
    _LOG.error("a request failed", exc_info=error)
    return HttpError(500, "InternalServerError", "The request failed in the server; its log has the details.")


def _problems(error: Exception) -> list[dict[str, Any]]:
    each = error.problems if isinstance(error, ProjectError) else [error] if isinstance(error, ConfigError) else []
    return [
        {"message": one.problem, "file": one.file, "line": one.line, "column": one.column, "remedy": one.remedy}
        for one in each[:_MOST]
    ]


def _headers(status: int) -> dict[str, str]:
    if status == 401:
        return {"WWW-Authenticate": 'Bearer realm="mere", Basic realm="mere"'}
    return {"Retry-After": _SOON} if status in (429, 503) else {}


def response(error: HttpError) -> Response:
    return Response(error.body(), error.status, dict(error.headers), "application/json")

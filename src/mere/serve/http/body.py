"""Reads the body of a request: JSON, of limited size, in limited time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request

from mere.serve.http.errors import HttpError, bad_request

LARGEST = 32 << 20  # bytes; a commit of thousands of properties or schemas is far below
SECONDS = 30.0  # for all of it
TOGETHER = 128 << 20  # bytes of the bodies of all requests that are being received or answered
_DEEPEST = 150  # objects and lists inside of each other; a schema takes three for each level
_MOST = 1_000_000  # values: as Python's, each takes up to a hundred bytes


class Room:
    """For the bodies of all requests at once. It belongs to one event loop."""

    def __init__(self, most: int | None = None) -> None:
        self._left = TOGETHER if most is None else most

    def take(self, length: int) -> None:
        if length > self._left:
            busy = "The server is busy with other large requests."
            raise HttpError(503, "ServiceUnavailableException", busy, {"Retry-After": "1", "Connection": "close"})
        self._left -= length

    def give_back(self, length: int) -> None:
        self._left += length


class Received:
    """A body in the room that it takes, until it is left."""

    def __init__(self, request: Request, room: Room) -> None:
        self._request = request
        self._room = room
        self._length = 0

    async def __aenter__(self) -> bytes:
        try:
            return await content(self._request, take=self._take)
        except BaseException:
            self._room.give_back(self._length)
            raise

    async def __aexit__(self, *_: object) -> None:
        self._room.give_back(self._length)

    def _take(self, length: int) -> None:
        self._room.take(length)
        self._length += length


async def content(
    request: Request,
    largest: int = LARGEST,
    take: Callable[[int], None] = lambda _: None,
) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared) > largest:
        raise _too_large(largest)
    parts, length = [], 0
    try:
        async with asyncio.timeout(SECONDS):
            async for part in request.stream():
                length += len(part)
                if length > largest:
                    raise _too_large(largest)
                take(len(part))
                parts.append(part)
    except TimeoutError:
        message = f"The body did not come within {SECONDS:.0f} s."
        raise HttpError(408, "RequestTimeoutException", message, {"Connection": "close"}) from None
    except ClientDisconnect:
        raise bad_request("The client disconnected before it had sent its whole request.") from None
    return b"".join(parts)


def parsed(body: bytes) -> dict[str, Any]:
    """A JSON object, or HttpError 400."""
    if body.count(b",") + body.count(b"[") + body.count(b"{") > _MOST:
        raise bad_request("The body has more than a million values.")
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"The body is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise bad_request("The body must be a JSON object.")
    _check_depth(found)
    return found


def _check_depth(value: dict[str, Any]) -> None:
    """Whatever walks through it goes as deep."""
    level: list[Any] = [value]
    for _ in range(_DEEPEST):
        inner = [each for one in level for each in (one.values() if isinstance(one, dict) else one)]
        level = [each for each in inner if isinstance(each, dict | list)]
        if not level:
            return
    raise bad_request(f"The body is nested more than {_DEEPEST} levels deep.")


def _too_large(largest: int) -> HttpError:
    message = f"The body is larger than {largest >> 20} MB."
    return HttpError(413, "RequestTooLargeException", message, {"Connection": "close"})

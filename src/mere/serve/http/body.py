"""What a client sends with a request: JSON, of a bounded size, in a bounded time."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request

from mere.serve.http.errors import HttpError, bad_request

LARGEST = 32 << 20  # bytes; a commit of thousands of properties or schemas is far below
SECONDS = 30.0  # for all of it


async def content(request: Request, largest: int = LARGEST, seconds: float = SECONDS) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared) > largest:
        raise _too_large(largest)
    parts, length = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                length += len(part)
                if length > largest:
                    raise _too_large(largest)
                parts.append(part)
    except TimeoutError:
        message = f"The body did not come within {seconds:.0f} s."
        raise HttpError(408, "RequestTimeoutException", message, {"Connection": "close"}) from None
    except ClientDisconnect:
        raise bad_request("The client disconnected before it had sent its whole request.") from None
    return b"".join(parts)


def parsed(body: bytes) -> dict[str, Any]:
    """A JSON object, or HttpError 400."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"The body is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise bad_request("The body must be a JSON object.")
    return found


def _too_large(largest: int) -> HttpError:
    message = f"The body is larger than {largest >> 20} MB."
    return HttpError(413, "RequestTooLargeException", message, {"Connection": "close"})

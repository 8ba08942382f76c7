"""Requests for files on web servers, and what the response says about the file.

A response is read piece by piece: it may be larger than memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from urllib.parse import quote, urlsplit

from mere.sources.web.http import Answer, Client, Failure, basic, refused

TRIES = 5
_ANSWER = 30.0  # seconds without a byte
_PIECE = 1 << 20
_ASKED = "asked at "
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ALLOWED = "/%:@!$&'()*+,;=~"
_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")


@dataclass(frozen=True)
class Address:
    """What is requested. It prints without its secrets."""

    shown: str  # as the user wrote it, without user, password and query
    url: str = field(repr=False)
    authorization: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Facts:
    """What an answer says of the file."""

    etag: str | None
    size: int | None
    modified: datetime | None

    @property
    def version(self) -> str:
        """Of a server that says nothing of its file nobody can tell whether it changed: each time counts as new."""
        if self.etag:
            return self.etag
        if self.size is None and self.modified is None:
            return f"{_ASKED}{datetime.now(UTC).isoformat()}"
        return f"{'' if self.size is None else self.size}-{f'{self.modified:%Y%m%dT%H%M%S}' if self.modified else ''}"

    def fit(self, version: str) -> bool:
        return version.startswith(_ASKED) or self.version == version


def address(declared: str, location: str) -> Address:
    """Of a file; `declared` is the location of its source, which has what must not be shown.

    Characters that cannot stand in a web address are escaped; what is escaped already stays as it is.
    """
    secret = urlsplit(declared)
    user = None
    if secret.username is not None:
        user = basic(secret.username, secret.password)
    scheme, _, rest = location.partition("://")
    host, slash, path = rest.partition("/")
    name = host if host.isascii() else host.encode("idna").decode()
    query = f"?{_escaped(secret.query, '?')}" if secret.query else ""
    return Address(location, f"{scheme}://{name}{_escaped(f'{slash}{path}')}{query}", user)


def _escaped(text: str, allowed: str = "") -> str:
    return quote(_LONE_PERCENT.sub("%25", text), safe=_ALLOWED + allowed)


@contextmanager
def requested(at: Address, method: str = "GET", headers: Mapping[str, str] | None = None) -> Iterator[Answer]:
    """The answer, whose body is read with `pieces`. Any status but 2xx is a Failure."""
    secret = {"Authorization": at.authorization} if at.authorization else {}
    # Packed on the way, a file would have neither its size nor its ETag.
    with _client().ask(method, at.url, {"Accept-Encoding": "identity", **(headers or {})}, secret) as answer:
        if not 200 <= answer.status < 300:
            raise refused(answer)
        yield answer


def pieces(answer: Answer) -> Iterator[bytes]:
    while True:
        with _client().failures():
            piece = answer.read1(_PIECE, decode_content=False)
        if not piece:
            return
        yield piece


def facts(answer: Answer) -> Facts:
    """Of the whole file, though the answer may have a part of it."""
    headers = answer.headers
    total = _RANGE.fullmatch(headers.get("Content-Range", ""))
    length = total[2] if total else headers.get("Content-Length", "")
    return Facts(headers.get("ETag"), int(length) if length.isdecimal() else None, _time(headers.get("Last-Modified")))


def starts_at(answer: Answer) -> int:
    """The first byte that the answer has."""
    found = _RANGE.fullmatch(answer.headers.get("Content-Range", "")) if answer.status == 206 else None
    return int(found[1]) if found and found[1] else 0


def looked_up(at: Address) -> Facts:
    """By HEAD; where a server refuses that or says too little, by asking for the first byte."""
    try:
        with requested(at, "HEAD") as answer:
            found = facts(answer)
        if found.etag or found.size is not None:
            return found
    except Failure as failure:
        # 403: an address that was signed for GET.
        if failure.status not in (400, 403, 405, 501):
            raise
    try:
        with requested(at, "GET", {"Range": "bytes=0-0"}) as answer:
            return facts(answer)
    except Failure as failure:
        if failure.status != 416:  # there is no first byte
            raise
        with requested(at) as answer:
            return facts(answer)


@cache
def _client() -> Client:
    return Client(_ANSWER)


def _time(text: str | None) -> datetime | None:
    try:
        found = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)

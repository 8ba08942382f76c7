"""Requests for files on web servers: what is asked, what an answer says of the file, and when it is worth asking again.

An answer is read piece by piece: it may be larger than the memory. Certificates are checked as the system's are, and
the usual variables name a proxy.
"""

from __future__ import annotations

import base64
import http.client
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import cache
from http.client import HTTPResponse
from typing import IO, TypeVar
from urllib.parse import quote, unquote, urlsplit

from mere.sources.web import MOST_PATIENCE, in_words, seconds_wanted, status_line

Answered = TypeVar("Answered")

ANSWER = 30.0  # seconds without a byte
TRIES = 5
_PIECE = 1 << 20
_ASKED = "asked at "
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ALLOWED = "/%:@!$&'()*+,;=~"
_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")


class Failure(Exception):
    """A request that brought no answer, or not the one that was hoped for. `words` hold no part of the address."""

    def __init__(
        self, words: str, *, status: int | None = None, passing: bool = False, after: float | None = None
    ) -> None:
        super().__init__(words)
        self.words = words
        self.status = status
        self.passing = passing  # asking again may help
        self.after = after  # the seconds that the server asks to wait
        self.moved = False  # it brought some bytes before it failed


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
        pair = f"{unquote(secret.username)}:{unquote(secret.password or '')}"
        user = f"Basic {base64.b64encode(pair.encode()).decode()}"
    scheme, _, rest = location.partition("://")
    host, slash, path = rest.partition("/")
    name = host if host.isascii() else host.encode("idna").decode()
    query = f"?{_escaped(secret.query, '?')}" if secret.query else ""
    return Address(location, f"{scheme}://{name}{_escaped(f'{slash}{path}')}{query}", user)


def _escaped(text: str, allowed: str = "") -> str:
    return quote(_LONE_PERCENT.sub("%25", text), safe=_ALLOWED + allowed)


@contextmanager
def asked(at: Address, method: str = "GET", headers: Mapping[str, str] | None = None) -> Iterator[HTTPResponse]:
    """The answer, whose body is read with `pieces`. Any status but 2xx is a Failure."""
    request = urllib.request.Request(at.url, method=method)
    # Packed on the way, a file would have neither its size nor its ETag.
    for name, value in {"Accept-Encoding": "identity", "User-Agent": "mere", **(headers or {})}.items():
        request.add_header(name, value)
    if at.authorization:
        request.add_header("Authorization", at.authorization)
    with _failures():
        answer = _opener().open(request, timeout=ANSWER)
    with answer:
        yield answer


def pieces(answer: HTTPResponse) -> Iterator[bytes]:
    while True:
        with _failures():
            piece = answer.read1(_PIECE)
        if not piece:
            return
        yield piece


def facts(answer: HTTPResponse) -> Facts:
    """Of the whole file, though the answer may have a part of it."""
    headers = answer.headers
    total = _RANGE.fullmatch(headers.get("Content-Range", ""))
    length = total[2] if total else headers.get("Content-Length", "")
    return Facts(headers.get("ETag"), int(length) if length.isdecimal() else None, _time(headers.get("Last-Modified")))


def starts_at(answer: HTTPResponse) -> int:
    """The first byte that the answer has."""
    found = _RANGE.fullmatch(answer.headers.get("Content-Range", "")) if answer.status == 206 else None
    return int(found[1]) if found and found[1] else 0


def looked_up(at: Address) -> Facts:
    """By HEAD; where a server refuses that or says too little, by asking for the first byte."""
    try:
        with asked(at, "HEAD") as answer:
            found = facts(answer)
        if found.etag or found.size is not None:
            return found
    except Failure as failure:
        # 403: an address that was signed for GET.
        if failure.status not in (400, 403, 405, 501):
            raise
    try:
        with asked(at, "GET", {"Range": "bytes=0-0"}) as answer:
            return facts(answer)
    except Failure as failure:
        if failure.status != 416:  # there is no first byte
            raise
        with asked(at) as answer:
            return facts(answer)


def patiently(attempt: Callable[[], Answered], wait: Callable[[float], None] = time.sleep) -> Answered:
    """Try until it is answered, or fails for good. Tries count anew when one has brought the work further."""
    tries = 0
    while True:
        try:
            return attempt()
        except Failure as failure:
            tries = 1 if failure.moved else tries + 1
            if not failure.passing or tries >= TRIES or (failure.after or 0) > MOST_PATIENCE:
                raise
            wait(failure.after if failure.after is not None else 0.5 * 2.0**tries)


@contextmanager
def _failures() -> Iterator[None]:
    """Not `from error` anywhere: the texts of the library have the address in them, query and all."""
    try:
        yield
    except urllib.error.HTTPError as error:
        with error:
            status, after = error.code, seconds_wanted(error.headers.get("Retry-After", "").strip())
        said = f"it answers {status_line(status)}"
        if after and after > MOST_PATIENCE:
            said = f"{said} and wants to be left alone for {after:,.0f} s"
        raise Failure(said, status=status, passing=status in _PASSING, after=after) from None
    except urllib.error.URLError as error:
        why = error.reason if isinstance(error.reason, OSError) else http.client.InvalidURL()
        raise _unanswered(why) from None
    except (OSError, http.client.HTTPException) as error:
        raise _unanswered(error) from None


def _unanswered(error: Exception) -> Failure:
    match error:
        case ssl.SSLCertVerificationError():
            return Failure(f"its certificate is not trusted ({error.verify_message})")
        case http.client.InvalidURL():
            return Failure("its address, or the one that it leads to, is not one of the web")
    unknown = isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN
    return Failure(in_words(error, ANSWER), passing=not unknown)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """A HEAD stays one, and a password stays with the server that it is for."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        # typeshed has a narrower type for `headers` than what is passed on.
        request = super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]
        if request is not None:
            request.method = req.get_method()
            if urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
                request.remove_header("Authorization")
        return request


@cache
def _opener() -> urllib.request.OpenerDirector:
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=ssl.create_default_context()),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.UnknownHandler(),
        _Redirects(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _time(text: str | None) -> datetime | None:
    try:
        found = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)

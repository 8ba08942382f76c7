"""HTTP requests: connections, proxies, redirects, retries, and errors that reveal no secret.

Nothing here logs, and no message has a query, a header or a text of a library in it: any of them may hold a token.
"""

from __future__ import annotations

import base64
import http.client
import logging
import socket
import ssl
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import urllib3
from urllib3 import exceptions

from mere.errors import SourceError

# It logs addresses with their queries, at a level that somebody may have switched on.
logging.getLogger("urllib3").setLevel(logging.CRITICAL)

Answered = TypeVar("Answered")
Origin = tuple[str, str, int]
Answer = urllib3.BaseHTTPResponse

MOST_PATIENCE = 300.0  # a server that wants to be left alone for longer is left alone: the run ends
_MOST_BACKOFF = 60.0
_PORTS = {"http": 80, "https": 443}
_TO_GET = (301, 302, 303)
_REDIRECTS = (*_TO_GET, 307, 308)
_HOPS = 10
_OF_REDIRECT = 2**16  # bytes that are read, so that the connection can be kept
# Beside what the server itself cannot do: it waited too long, it wants to see fewer or later requests.
_TRANSIENT = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)


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
        self.untrusted = False  # nobody vouches for the server's certificate

    @property
    def wants_to_be_left_alone(self) -> bool:
        return (self.after or 0) > MOST_PATIENCE


@dataclass(frozen=True)
class Client:
    """Keeps connections from request to request. Its errors are Failures."""

    timeout: float  # seconds without a byte
    _pools: dict[str, urllib3.PoolManager] = field(default_factory=dict, init=False, repr=False)

    def close(self) -> None:
        while self._pools:
            self._pools.popitem()[1].clear()

    def ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        secret: Mapping[str, str] | None = None,
        home: str | None = None,
        body: bytes | None = None,
        before: Callable[[], None] = lambda: None,
    ) -> Answer:
        """The answer whatever its status, its body unread. Redirects are followed.

        `secret`: headers that only the server of `home` is told, or of `url`; `before`: called ahead of each request.
        """
        knows = origin(home or url)
        for _ in range(_HOPS):
            before()
            told = {"User-Agent": "mere", **headers, **((secret or {}) if _may_know(knows, origin(url)) else {})}
            answer = self._request(method, url, told, body)
            target = answer.headers.get("Location")
            again = _TO_GET if method == "POST" else _REDIRECTS
            if answer.status not in again or not target:
                return answer
            with self.failures(), answer:
                answer.read(_OF_REDIRECT, decode_content=False)
            url = urljoin(url, target)
            if not _is_of_web(url):
                said = status_line(answer.status)
                raise Failure(f"it answers {said} and redirects to what is not a web address")
            method, body = ("HEAD" if method == "HEAD" else "GET"), None
        raise Failure("it redirects endlessly")

    def _request(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        parts, at = urlsplit(url), origin(url)
        plain = urlunsplit((at[0], _host(at), parts.path or "/", parts.query, ""))
        with self.failures():
            manager = self._manager(at)
            pool = manager.connection_from_url(plain)
            connected = pool.num_connections

            def send() -> Answer:
                return manager.urlopen(
                    method, plain, headers=headers, body=body, redirect=False, retries=False, preload_content=False,
                    decode_content=False, enforce_content_length=False, timeout=self.timeout,
                )  # fmt: skip

            try:
                return send()
            except exceptions.ProtocolError:
                # A server may have closed a connection that it did not hear of for a while.
                if pool.num_connections > connected:
                    raise
                return send()

    def _manager(self, at: Origin) -> urllib3.PoolManager:
        """As the environment says: https_proxy, no_proxy and the like."""
        address = urllib.request.getproxies().get(at[0], "")
        proxy = "" if not address or urllib.request.proxy_bypass(_host(at)) else address
        if proxy not in self._pools:
            self._pools[proxy] = self._through(proxy) if proxy else urllib3.PoolManager(ssl_context=self._context)
        return self._pools[proxy]

    def _through(self, address: str) -> urllib3.ProxyManager:
        proxy = urlsplit(address if "://" in address else f"http://{address}")
        headers = {}
        if proxy.username:
            headers["Proxy-Authorization"] = basic(proxy.username, proxy.password)
        host = _host(("http", proxy.hostname or "", proxy.port or _PORTS["http"]))
        return urllib3.ProxyManager(f"http://{host}", proxy_headers=headers, ssl_context=self._context)

    @cached_property
    def _context(self) -> ssl.SSLContext:
        """Certificates are checked as the system's are."""
        return ssl.create_default_context()

    def failures(self) -> _Failures:
        """For what is done with an answer, too: its body comes over the same connection."""
        return _Failures(self.timeout)


@dataclass(frozen=True)
class _Failures:
    """Errors of the library become Failures, without their cause: its texts have the address in them."""

    timeout: float

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, exceptions.HTTPError | http.client.HTTPException | OSError):
            raise _unanswered(error, self.timeout) from None


def refused(answer: Answer) -> Failure:
    """What a status says that is not the one that was hoped for."""
    status, after = answer.status, seconds_wanted(answer.headers.get("Retry-After", "").strip())
    passing = status in _TRANSIENT or (
        status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED
    )
    failure = Failure(f"it answers {status_line(status)}", status=status, passing=passing, after=after)
    if failure.wants_to_be_left_alone:
        failure.words = f"{failure.words} and asks not to be called again for {after:,.0f} s"
    return failure


def patiently(attempt: Callable[[], Answered], tries: int, wait: Callable[[float], None] = time.sleep) -> Answered:
    """Try until it is answered, or fails for good. Tries count anew when one has brought the work further."""
    done = 0
    while True:
        try:
            return attempt()
        except Failure as failure:
            done = 1 if failure.moved else done + 1
            if not failure.passing or done >= tries or failure.wants_to_be_left_alone:
                raise
            pause = min(2.0 ** (done - 1), _MOST_BACKOFF)
            wait(pause if failure.after is None else failure.after)


def _unanswered(error: BaseException, timeout: float) -> Failure:
    cause = _cause(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        failure = Failure(f"its certificate is not trusted ({cause.verify_message})")
        failure.untrusted = True
        return failure
    if isinstance(cause, exceptions.LocationValueError):
        return Failure("its address, or the one that it redirects to, is not a web address")
    unknown = isinstance(cause, socket.gaierror) and cause.errno != socket.EAI_AGAIN
    return Failure(_in_words(cause, timeout), passing=not unknown)


def _cause(error: BaseException) -> BaseException:
    """What the library has found out, below what it wraps it in."""
    match error:
        case exceptions.ProxyError():
            return _cause(error.original_error)
        case exceptions.NewConnectionError() | exceptions.SSLError() if error.__cause__ or error.args:
            inner = error.__cause__ or error.args[0]
            return _cause(inner) if isinstance(inner, BaseException) else error
        case exceptions.ProtocolError(args=(_, BaseException() as inner)):
            return inner
    return error


def _in_words(error: BaseException, timeout: float) -> str:
    """What became of a request that has no answer."""
    match error:
        case socket.gaierror():
            return "the name of its host is not known"
        case TimeoutError() | exceptions.TimeoutError():
            return f"it did not answer within {timeout:g} s"
        case ConnectionRefusedError():
            return "nobody listens there"
        case ConnectionError() | http.client.IncompleteRead() | http.client.BadStatusLine():
            return "it hung up before its answer was whole"
        case ssl.SSLError() | exceptions.SSLError():
            return "it does not offer TLS"
        case OSError():
            return error.strerror or "it cannot be reached"
    return "it does not speak HTTP"


def shown(url: str) -> str:
    """An address without what may be a secret in it: a user, a password, a query."""
    at = origin(url)
    return f"{at[0]}://{_host(at)}{urlsplit(url).path}"


def basic(user: str, password: str | None) -> str:
    """The header of a user, as both stand in an address."""
    pair = f"{unquote(user)}:{unquote(password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def status_line(status: int) -> str:
    """`404 Not Found`"""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def origin(url: str) -> Origin:
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    except ValueError:  # its text has the address in it
        scheme, host, port = "", None, None
    if scheme not in _PORTS or not host:
        raise SourceError("An address is not that of a web server.", remedy="It begins with https:// or http://.")
    return scheme, host, port or _PORTS[scheme]


def _is_of_web(url: str) -> bool:
    try:
        return bool(origin(url))
    except SourceError:
        return False


def _may_know(home: Origin, other: Origin) -> bool:
    """Whether what is meant for one may be told to the other: the same server, or the same by TLS instead."""
    return other == home or (
        (home[0], other[0]) == ("http", "https") and home[1] == other[1] and _is_usual(home, other)
    )


def _is_usual(*origins: Origin) -> bool:
    return all(port == _PORTS[scheme] for scheme, _, port in origins)


def _host(at: Origin) -> str:
    scheme, host, port = at
    bracketed = f"[{host}]" if ":" in host else host
    return bracketed if port == _PORTS[scheme] else f"{bracketed}:{port}"


def seconds_wanted(retry_after: str) -> float | None:
    """The header is a number of seconds, or a date."""
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        at = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max((at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds(), 0.0)

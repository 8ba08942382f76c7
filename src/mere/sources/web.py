"""Asking a web server, politely: over one connection, at a rate, again after a failure, and with secrets for it alone.

Nothing here logs, and no message has a query, a header or a text of a library in it: any of them may hold a token.
"""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
import time
import urllib.request
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit, urlunsplit

from mere.errors import SourceError

Origin = tuple[str, str, int]

_PORTS = {"http": 80, "https": 443}
_ALLOWED = "!$%&'()*+,/:;=?@[]~"  # in a path with a query; anything else is encoded, what is encoded stays
_REDIRECTS = (301, 302, 303, 307, 308)
_HOPS = 10
_MOST_BACKOFF = 60.0
MOST_PATIENCE = 300.0  # a server that wants to be left alone for longer is left alone: the run ends
_OURS = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "mere"}
# Beside what the server itself cannot do: it waited too long, it wants to see fewer or later requests.
_TRANSIENT = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes


class Cut(http.client.HTTPException):
    """A packed body that is not whole."""


@dataclass
class Web:
    """Asks the server of `home`; only requests to that server have the `headers`.

    `rate`: so many requests a second at most. `wait` and `clock` are those of the world, or of a test.
    """

    home: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    rate: float | None = None
    retries: int = 5
    timeout: float = 30.0
    largest: int = 100_000_000  # bytes of an answer
    wait: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _ready: float = field(default=float("-inf"), init=False)  # when the next request may go
    _kept: dict[Origin, http.client.HTTPConnection] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name, value in self.headers.items():
            if not value.isprintable() or not value.isascii():
                raise SourceError(
                    f"The header {name} cannot be sent: its value has a line break or another character that headers"
                    " do not have.",
                    remedy="Check the value that it gets from the environment; a line break at its end is common.",
                )

    def close(self) -> None:
        while self._kept:
            self._kept.popitem()[1].close()

    def get(self, url: str) -> Answer:
        """The answer, whatever it says, unless another attempt may bring a better one: then there are `retries`."""
        trouble = ""
        for attempt in range(self.retries + 1):
            pause = min(2.0**attempt, _MOST_BACKOFF)
            try:
                answer = self._followed(url)
            except ssl.SSLCertVerificationError as error:
                raise SourceError(
                    f"{shown(url)} cannot be read: its certificate is not trusted ({error.verify_message}).",
                    remedy="Let SSL_CERT_FILE name the certificates that you trust.",
                ) from None
            except (OSError, http.client.HTTPException) as error:
                self.close()
                trouble = in_words(error, self.timeout)
            else:
                if answer.status < HTTPStatus.INTERNAL_SERVER_ERROR and answer.status not in _TRANSIENT:
                    return answer
                trouble = f"it answers {status_line(answer.status)}"
                pause = self._wanted_pause(answer, url) or pause
            if attempt < self.retries:
                self.wait(pause)
        asked = "once" if self.retries == 0 else f"{self.retries + 1} times"
        raise SourceError(
            f"{shown(url)} cannot be read: {trouble}. It was asked {asked}.",
            remedy="Check that it runs and can be reached from here; then run again. Nothing was loaded.",
        )

    def _wanted_pause(self, answer: Answer, url: str) -> float | None:
        seconds = seconds_wanted(answer.headers.get("Retry-After", "").strip())
        if seconds is not None and seconds > MOST_PATIENCE:
            raise SourceError(
                f"{shown(url)} answers {status_line(answer.status)} and wants to be left alone for {seconds:,.0f} s.",
                remedy="Run again then, or ask less often: `rate: 1/s`.",
            )
        return seconds

    def _followed(self, url: str) -> Answer:
        for _ in range(_HOPS):
            answer = self._asked(url)
            target = answer.headers.get("Location")
            if answer.status not in _REDIRECTS or not target:
                return answer
            url = urljoin(url, target)
        raise SourceError(f"{shown(self.home)} leads from one address to the next without an end.")

    def _asked(self, url: str) -> Answer:
        self._keep_to_the_rate()
        at = origin(url)
        headers = _OURS | (dict(self.headers) if _may_know(origin(self.home), at) else {})
        if at in self._kept:
            # A server may have closed a connection that it did not hear of for a while.
            with suppress(ConnectionError):
                return self._exchanged(url, at, headers)
            self._kept.pop(at).close()
        return self._exchanged(url, at, headers)

    def _exchanged(self, url: str, at: Origin, headers: Mapping[str, str]) -> Answer:
        proxy = _proxy(at)
        if at not in self._kept:
            self._kept[at] = _connection(at, proxy, self.timeout)
        connection = self._kept[at]
        parts = urlsplit(url)
        target = urlunsplit(("", "", parts.path or "/", parts.query, ""))
        if proxy and at[0] == "http":
            target = f"http://{_host(at)}{target}"
            headers = {**headers, **_credentials(proxy)}
        connection.request("GET", quote(target, safe=_ALLOWED), headers={"Host": _host(at), **headers})
        response = connection.getresponse()
        body = response.read(self.largest + 1)
        if response.length and len(body) <= self.largest:
            raise http.client.IncompleteRead(body, response.length)
        packing = response.headers.get("Content-Encoding", "").strip().lower()
        if packing in ("gzip", "x-gzip") and len(body) <= self.largest:
            body = _unpacked(body, self.largest)
        if len(body) > self.largest:
            self.close()  # the rest of it is still to come
            raise SourceError(
                f"{shown(url)} cannot be read: its answer has more than {self.largest:,} bytes.",
                remedy="Ask for smaller pages (`paging: {limit: …, size: …}`), or allow more: `largest: 1GB`.",
            )
        return Answer(response.status, response.headers, body)

    def _keep_to_the_rate(self) -> None:
        if self.rate is None:
            return
        if (early := self._ready - self.clock()) > 0:
            self.wait(early)
        self._ready = max(self._ready, self.clock()) + 1 / self.rate


def in_words(error: Exception, timeout: float) -> str:
    """What became of a request that has no answer."""
    match error:
        case socket.gaierror():
            return "the name of its host is not known"
        case TimeoutError():
            return f"it did not answer within {timeout:g} s"
        case ConnectionRefusedError():
            return "nobody listens there"
        case ConnectionError() | http.client.IncompleteRead() | http.client.BadStatusLine() | Cut():
            return "it hung up before its answer was whole"
        case ssl.SSLError():
            return "there is no TLS to be had"
        case OSError():
            return error.strerror or "it cannot be reached"
    return "it does not speak HTTP"


def shown(url: str) -> str:
    """An address without what may be a secret in it: a user, a password, a query."""
    scheme, host, port = origin(url)
    return f"{scheme}://{_host((scheme, host, port))}{urlsplit(url).path}"


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


def _proxy(at: Origin) -> SplitResult | None:
    """As the environment says: https_proxy, no_proxy and the like."""
    address = urllib.request.getproxies().get(at[0])
    if not address or urllib.request.proxy_bypass(_host(at)):
        return None
    return urlsplit(address if "://" in address else f"http://{address}")


def _connection(at: Origin, proxy: SplitResult | None, timeout: float) -> http.client.HTTPConnection:
    scheme, host, port = at
    near = (proxy.hostname or "", proxy.port or _PORTS["http"]) if proxy else (host, port)
    if scheme == "http":
        return http.client.HTTPConnection(*near, timeout=timeout)
    connection = http.client.HTTPSConnection(*near, timeout=timeout, context=ssl.create_default_context())
    if proxy:
        connection.set_tunnel(host, port, _credentials(proxy))
    return connection


def _credentials(proxy: SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _unpacked(body: bytes, most: int) -> bytes:
    """As much of it as shows that it is more than that: a few packed bytes can be a thousand times as many."""
    unpacking = zlib.decompressobj(wbits=31)
    try:
        text = unpacking.decompress(body, most + 1)
    except zlib.error:
        raise Cut from None
    if not unpacking.eof and len(text) <= most:
        raise Cut
    return text


def seconds_wanted(retry_after: str) -> float | None:
    """The header is a number of seconds, or a date."""
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        at = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max((at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds(), 0.0)

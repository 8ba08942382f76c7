"""Requests to a web API: rate-limited, retried after failures, with secrets sent to that server only."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mere.errors import SourceError
from mere.sources.web import http
from mere.sources.web.http import Client, Failure, patiently, refused, shown

_OURS = {"Accept": "application/json", "Accept-Encoding": "gzip"}


@dataclass(frozen=True)
class Answer:
    status: int
    links: tuple[str, ...]  # its headers `Link`
    body: bytes


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
    _client: Client = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._client = Client(self.timeout)
        for name, value in self.headers.items():
            if not value.isprintable() or not value.isascii():
                raise SourceError(
                    f"The header {name} cannot be sent: its value has a line break or another character that headers"
                    " do not have.",
                    remedy="Check the value that it gets from the environment; a line break at its end is common.",
                )

    def close(self) -> None:
        self._client.close()

    def get(self, url: str) -> Answer:
        """The answer, whatever it says, unless another attempt may bring a better one: then there are `retries`."""
        asked = 0

        def attempt() -> Answer:
            nonlocal asked
            asked += 1
            return self._request(url)

        try:
            return patiently(attempt, self.retries + 1, self.wait)
        except Failure as failure:
            raise self._given_up(failure, url, asked) from None

    def _given_up(self, failure: Failure, url: str, asked: int) -> SourceError:
        if failure.untrusted:
            remedy = "Set SSL_CERT_FILE to the certificates that you trust."
            return SourceError(f"{shown(url)} cannot be read: {failure.words}.", remedy=remedy)
        if failure.wants_to_be_left_alone:
            remedy = "Run again then, or ask less often: `rate: 1/s`."
            return SourceError(f"{shown(url)} {failure.words.removeprefix('it ')}.", remedy=remedy)
        times = "once" if asked == 1 else f"{asked} times"
        return SourceError(
            f"{shown(url)} cannot be read: {failure.words}. It was asked {times}.",
            remedy="Check that it runs and can be reached from here; then run again. Nothing was loaded.",
        )

    def _request(self, url: str) -> Answer:
        with self._client.ask("GET", url, _OURS, self.headers, self.home, before=self._keep_to_the_rate) as answer:
            body = self._body(answer, url)
        failure = refused(answer)
        if failure.passing:
            raise failure
        return Answer(answer.status, tuple(answer.headers.getlist("Link")), body)

    def _body(self, answer: http.Answer, url: str) -> bytes:
        with self._client.failures():
            body = answer.read(self.largest + 1, decode_content=False)
        if answer.length_remaining and len(body) <= self.largest:
            raise _cut()
        packing = answer.headers.get("Content-Encoding", "").strip().lower()
        if packing in ("gzip", "x-gzip") and len(body) <= self.largest:
            body = _unpacked(body, self.largest)
        if len(body) > self.largest:
            raise SourceError(
                f"{shown(url)} cannot be read: its answer has more than {self.largest:,} bytes.",
                remedy="Ask for smaller pages (`paging: {limit: …, size: …}`), or allow more: `largest: 1GB`.",
            )
        return body

    def _keep_to_the_rate(self) -> None:
        if self.rate is None:
            return
        if (early := self._ready - self.clock()) > 0:
            self.wait(early)
        self._ready = max(self._ready, self.clock()) + 1 / self.rate


def _cut() -> Failure:
    return Failure("it hung up before its answer was whole", passing=True)


def _unpacked(body: bytes, most: int) -> bytes:
    """As much of it as shows that it is more than that: a few packed bytes can be a thousand times as many."""
    unpacking = zlib.decompressobj(wbits=31)
    try:
        text = unpacking.decompress(body, most + 1)
    except zlib.error:
        raise _cut() from None
    if not unpacking.eof and len(text) <= most:
        raise _cut()
    return text

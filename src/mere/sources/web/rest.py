"""Records of a web API, page by page, each as the JSON text received: a number keeps every digit."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urljoin, urlsplit, urlunsplit

from mere.errors import SourceError
from mere.sources.cursor import later, less
from mere.sources.source import Loaded, Portion, Rest
from mere.sources.web.api import Answer, Web
from mere.sources.web.http import shown, status_line
from mere.sources.web.jsontext import NotThere, check, elements, end_of, find, keys_of, members_of, value_at

Wait = Callable[[float], None]
Clock = Callable[[], float]
Pages = Generator[list[str], None, None]

_LINK = re.compile(r'<([^>]*)>((?:\s*;\s*[^\s;,=]+(?:\s*=\s*(?:"[^"]*"|[^",;\s]*))?)*)')
_NEXT = re.compile(r';\s*rel\s*=\s*(?:"(?:[^"]*\s)?next(?:\s[^"]*)?"|next\b)', re.IGNORECASE)
_NO_VALUE = ("", None, False)
_EMPTY_PAGES = 1000  # in a row, each of which says that there is more
_SHOWN_TEXT = 200
_LONG_ENOUGH = 4  # for a value to be a secret


def address(rest: Rest) -> str:
    """Without its query, which may hold a token."""
    return shown(rest.url)


def offered(rest: Rest, last: Loaded | None, wait: Wait = time.sleep, clock: Clock = time.monotonic) -> Portion | None:
    """What there is to load after `last`; None if there is nothing new.

    That is only said if it is certain: no record is newer than the last one, and there is no overlap in which others
    might have come; or, of an API without a cursor, its only page is what it was. Otherwise it is loaded again.
    """
    since = last.until if last else None
    if rest.since and since is not None:
        fresh = bool(rest.overlap) or _has_newer(rest, since, wait, clock)
        return Portion("records", address(rest), "", since=since) if fresh else None
    first = probe(rest, None, wait, clock)
    version = "" if _is_paged(rest) else _digest(first).hex()
    if last and version and version == last.version:
        return None
    return Portion("records", address(rest), version)


def probe(rest: Rest, since: str | None, wait: Wait = time.sleep, clock: Clock = time.monotonic) -> list[str]:
    """The records of the first page."""
    with closing(pages(rest, since, wait, clock)) as found:
        return next(found, [])


def pages(rest: Rest, since: str | None, wait: Wait = time.sleep, clock: Clock = time.monotonic) -> Pages:
    """The records of each page as JSON texts.

    `since` is the last value of the cursor that was loaded. Less the overlap it is asked for, so that records come
    that were loaded before: they are merged by key, or replace all that the table has from there on. Pages are asked
    for until one is empty or says that it is the last: a short one may only mean that the server gives fewer at a time.
    """
    seconds = rest.timeout.total_seconds()
    web = Web(rest.url, rest.headers, rest.rate, rest.retries, seconds, rest.largest, wait, clock)
    seen = _Seen(rest)
    with closing(web):
        url: str | None = _with(rest.url, {**rest.params, **_size(rest), **_since(rest, since), **_start(rest)})
        while url is not None:
            seen.address(url)
            answer = web.get(url)
            if answer.status == HTTPStatus.NOT_FOUND and seen.pages and _counts(rest):
                return  # so some servers say that there is no such page any more
            text = _json(rest, answer)
            records = _records(rest, text) if text else []
            seen.page(records)
            if records:
                yield records
            url = _next(rest, url, answer, text, records, seen) if text else None


def newest(rest: Rest, records: Iterable[str]) -> str | None:
    """The greatest value that the cursor has in these records, if it has one in any."""
    values = [found for each in records if (found := _said(each, rest.cursor or "")) is not None]
    return functools.reduce(later, values) if values else None


def _has_newer(rest: Rest, since: str, wait: Wait, clock: Clock) -> bool:
    with closing(pages(rest, since, wait, clock)) as found:
        return any(later(newest(rest, page) or since, since) != since for page in found)


class _Seen:
    """What was asked and what came: a server that ignores the page that it is asked for would answer for ever."""

    def __init__(self, rest: Rest) -> None:
        self.pages = 0
        self.records = 0
        self._rest = rest
        self._addresses: dict[str, int] = {}
        self._contents: dict[bytes, int] = {}
        self._empty = 0

    def address(self, url: str) -> None:
        if url in self._addresses:
            first = self._addresses[url]
            raise self._endless(f"page {self.pages} leads back to page {first}")
        self._addresses[url] = self.pages + 1

    def page(self, records: list[str]) -> None:
        self.pages += 1
        self.records += len(records)
        self._empty = 0 if records else self._empty + 1
        if self._empty > _EMPTY_PAGES:
            raise self._endless(f"its last {self._empty:,} pages were empty, and each says that there is more")
        if records and self.pages == 1:
            _check_cursor(self._rest, records)
        content = _digest(records)
        if records and content in self._contents:
            raise self._endless(f"page {self.pages} has the same records as page {self._contents[content]}")
        self._contents[content] = self.pages

    def _endless(self, why: str) -> SourceError:
        return SourceError(
            f"{address(self._rest)} would never end: {why}. Nothing was loaded.",
            remedy="Check `paging` of the source: most likely the server does not know the parameter that it names.",
        )


# the next page


def _is_paged(rest: Rest) -> bool:
    return _counts(rest) or rest.paging.cursor is not None or rest.paging.link


def _counts(rest: Rest) -> bool:
    return rest.paging.page is not None or rest.paging.offset is not None


def _start(rest: Rest) -> dict[str, str]:
    if rest.paging.page:
        return {rest.paging.page: str(rest.paging.first)}
    return {rest.paging.offset: "0"} if rest.paging.offset else {}


def _size(rest: Rest) -> dict[str, str]:
    return {rest.paging.limit: str(rest.paging.size)} if rest.paging.limit else {}


def _since(rest: Rest, since: str | None) -> dict[str, str]:
    return {rest.since: less(since, rest.overlap)} if rest.since and since is not None else {}


def _next(rest: Rest, url: str, answer: Answer, text: str, records: list[str], seen: _Seen) -> str | None:
    paging = rest.paging
    if paging.page or paging.offset:
        if not records or (paging.next and _said(text, paging.next) is None):
            return None
        if paging.page:
            return _with(url, {paging.page: str(paging.first + seen.pages)})
        return _with(url, {paging.offset or "": str(seen.records)})
    if paging.cursor:
        value = _said(text, paging.next or "")
        return None if value is None else _with(url, {paging.cursor: value})
    if paging.link:
        target = _said(text, paging.next) if paging.next else _linked(answer)
        # The server wrote the whole address: parameters of ours beside those in it might be refused.
        return urljoin(url, target) if target else None
    return None


def _linked(answer: Answer) -> str | None:
    for header in answer.links:
        for target, about in _LINK.findall(header):
            if _NEXT.search(about):
                return str(target)
    return None


def _said(text: str, path: str) -> str | None:
    try:
        return _text(value_at(text, path))
    except NotThere:
        return None


def _with(url: str, params: Mapping[str, str]) -> str:
    parts = urlsplit(url)
    kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in params]
    return urlunsplit(parts._replace(query=urlencode([*kept, *params.items()]), fragment=""))


# what an answer holds


def _json(rest: Rest, answer: Answer) -> str:
    """The text of an answer, which is JSON; empty if there is no content."""
    if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
        raise _refused(rest, answer)
    if not answer.body.strip():
        return ""
    try:
        text = answer.body.decode(json.detect_encoding(answer.body))
        check(text)
    except (ValueError, RecursionError):
        raise SourceError(
            f"{address(rest)} does not answer with JSON. Its answer begins with: {_excerpt(rest, answer)}",
            remedy="Check `url`; a page for people often means that one has to sign in.",
        ) from None
    return text


def _check_cursor(rest: Rest, records: list[str]) -> None:
    if rest.cursor is None or newest(rest, records) is not None:
        return
    try:
        value_at(records[0], rest.cursor)
    except NotThere as error:
        raise SourceError(
            f"The records of {address(rest)} have no `{rest.cursor}`, which should be the cursor: {error}.",
            remedy="Correct `cursor` of the source.",
        ) from None


def _digest(records: list[str]) -> bytes:
    return hashlib.blake2b("\n".join(records).encode(), digest_size=16).digest()


def _records(rest: Rest, text: str) -> list[str]:
    try:
        at = find(text, 0, rest.records)
    except NotThere as error:
        raise SourceError(
            f"The answer of {address(rest)} has no `{rest.records}`: {error}.",
            remedy="Correct `records`, the path to the list of records.",
        ) from None
    if text[at] == "[":
        return list(elements(text, at))
    if text.startswith("null", at):
        return []  # an empty list, in the words of some servers
    if text[at] == "{" and not _is_paged(rest):
        return [text[at : end_of(text, at)]]
    there = f"an object with {keys_of(members_of(text, at))}" if text[at] == "{" else "a single value"
    where = f"At `{rest.records}` the" if rest.records else "The"
    raise SourceError(
        f"{where} answer of {address(rest)} is {there}, not a list of records.",
        remedy="Let `records` be the path to the list, such as `data.items`.",
    )


def _text(value: Any) -> str | None:
    """A value as it is handed back; None if there is none."""
    if value in _NO_VALUE:
        return None
    return value if isinstance(value, str) else json.dumps(value)


# what is said of an answer that is none


def _refused(rest: Rest, answer: Answer) -> SourceError:
    said = f"{address(rest)} answers {status_line(answer.status)}"
    if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        sent = [_origin(rest, f"the header {name}", name) for name in rest.headers]
        sent += [_origin(rest, f"the parameter {name}", name) for name in rest.params]
        return SourceError(
            f"{said}: it does not accept the credentials. It was sent"
            f" {'; '.join(sent) or 'no header and no parameter'}.",
            remedy="Check the value, which is not shown here, and that it may read this.",
        )
    excerpt = _excerpt(rest, answer)
    return SourceError(
        f"{said}{f': {excerpt}' if excerpt else ''}",
        remedy="Check `url` and `params` of the source. Nothing was loaded.",
    )


def _origin(rest: Rest, what: str, name: str) -> str:
    variable = rest.variables.get(name)
    return f"{what} from the environment variable {variable}" if variable else f"{what} as it is in the source's file"


def _excerpt(rest: Rest, answer: Answer) -> str:
    """The beginning of a body on one line, with nothing in it that was sent."""
    text = " ".join(answer.body.decode(errors="replace").split())
    query = [value for _, value in parse_qsl(urlsplit(rest.url).query)]
    for value in (*rest.headers.values(), *rest.params.values(), *query):
        for secret in {value, *value.split(), unquote(value), quote(value, safe=""), json.dumps(value)[1:-1]}:
            if len(secret) >= _LONG_ENOUGH:
                text = text.replace(secret, "…")
    return text if len(text) <= _SHOWN_TEXT else f"{text[:_SHOWN_TEXT]} …"

"""Against a real HTTP server in this process; only the clock is not that of the world."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import traceback
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from mere.errors import SourceError
from mere.sources.source import Loaded, Paging, Rest
from mere.sources.web import rest as api
from mere.sources.web.http import _may_know, origin
from tests.services.web import Reply, Request, WebServer

Serve = Callable[[Callable[[Request], Reply]], WebServer]

SECRET = "t0p-s3cret/Token"


class Clock:
    """Waiting takes no time, and is remembered."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:
        yield lambda answer: stack.enter_context(WebServer(answer))


@pytest.fixture
def clock() -> Clock:
    return Clock()


def records(rest: Rest, since: str | None = None, clock: Clock | None = None) -> list[str]:
    clock = clock or Clock()
    return [each for page in api.pages(rest, since, clock.wait, lambda: clock.now) for each in page]


def ids(rest: Rest, since: str | None = None) -> list[int]:
    return [json.loads(each)["id"] for each in records(rest, since)]


def numbered(count: int) -> list[dict[str, int]]:
    return [{"id": number} for number in range(count)]


def always(body: object = (), **about: object) -> Callable[[Request], Reply]:
    return lambda _: Reply(body, **about)  # type: ignore[arg-type]


def failure(rest: Rest, clock: Clock | None = None) -> SourceError:
    with pytest.raises(SourceError) as raised:
        records(rest, clock=clock)
    return raised.value


# pages


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 20])
@pytest.mark.parametrize("first", [0, 1])
def test_pages_are_counted_until_one_is_empty(serve: Serve, count: int, first: int) -> None:
    def answer(request: Request) -> Reply:
        page, size = int(request.params["p"]) - first, int(request.params["n"])
        return Reply(numbered(count)[page * size :][:size])

    server = serve(answer)
    rest = Rest(f"{server.url}/x", paging=Paging(page="p", first=first, limit="n", size=10))
    assert ids(rest) == list(range(count))


def test_a_server_that_gives_fewer_at_a_time_than_asked_for_loses_nothing(serve: Serve) -> None:
    server = serve(lambda request: Reply(numbered(12)[int(request.params["from"]) :][:5]))
    assert ids(Rest(server.url, paging=Paging(offset="from", limit="n", size=100))) == list(range(12))
    assert [each.params["from"] for each in server.requests] == ["0", "5", "10", "12"]
    assert {each.params["n"] for each in server.requests} == {"100"}


def test_a_page_beyond_the_last_may_be_404_but_not_the_first(serve: Serve) -> None:
    server = serve(lambda request: Reply(numbered(2)) if request.params["p"] == "1" else Reply(status=404))
    assert ids(Rest(server.url, paging=Paging(page="p"))) == [0, 1]
    assert "404 Not Found" in failure(Rest(server.url, paging=Paging(page="p", first=2))).message


def test_an_answer_may_say_that_its_page_is_the_last(serve: Serve) -> None:
    server = serve(
        lambda request: Reply({"data": [{"id": int(request.params["p"])}], "more": request.params["p"] < "3"})
    )
    assert ids(Rest(server.url, records="data", paging=Paging(page="p", next="more"))) == [1, 2, 3]
    assert len(server.requests) == 3


@pytest.mark.parametrize("end", [None, "", False, "absent"])
def test_a_cursor_is_followed_to_its_end_over_empty_pages(serve: Serve, end: object) -> None:
    pages = {"": ([1, 2], "a&b=1"), "a&b=1": ([], 12345678901234567890), "12345678901234567890": ([3], end)}

    def answer(request: Request) -> Reply:
        found, following = pages[request.params.get("after", "")]
        meta = {} if following == "absent" else {"next": following}
        return Reply({"rows": [{"id": each} for each in found], "meta": meta})

    server = serve(answer)
    rest = Rest(f"{server.url}/x?kept=1", records="rows", paging=Paging(cursor="after", next="meta.next"))
    assert ids(rest) == [1, 2, 3]
    assert all(each.params["kept"] == "1" for each in server.requests)


def test_links_are_followed_whatever_else_is_linked(serve: Serve) -> None:
    def answer(request: Request) -> Reply:
        page = int(request.params.get("page", "1"))
        links = [f'</x?page={page - 1}>; rel="prev"', '<https://other/?a=1,2>; title="x, y"; rel=last']
        if page < 3:
            links.append(f'</x?page={page + 1}>; title="; rel=no"; rel="nofollow next"')
        return Reply([{"id": page}], headers={"Link": ", ".join(links)})

    server = serve(answer)
    assert ids(Rest(f"{server.url}/x", params={"once": "1"}, paging=Paging(link=True))) == [1, 2, 3]
    assert [each.params.get("once") for each in server.requests] == ["1", None, None]


def test_a_link_may_stand_in_the_answer(serve: Serve) -> None:
    def answer(request: Request) -> Reply:
        more = {} if "s" in request.params else {"@odata.nextLink": "/x?s=1"}
        return Reply({"value": [{"id": len(request.params)}], **more})

    rest = Rest(f"{serve(answer).url}/x", records="value", paging=Paging(link=True, next="@odata.nextLink"))
    assert ids(rest) == [0, 1]


def test_without_paging_there_is_one_page_over_which_an_object_is_one_record(serve: Serve) -> None:
    server = serve(always({"id": 7, "rates": {"USD": 1.1}}))
    assert ids(Rest(server.url)) == [7]
    assert len(server.requests) == 1


def test_all_pages_come_over_one_connection_and_one_that_was_closed_is_opened_again(serve: Serve, clock: Clock) -> None:
    def answer(request: Request) -> Reply:
        page = int(request.params["p"])
        about = {"Connection": "close"} if page == 2 else {}
        return Reply(numbered(page) if page < 6 else [], headers=about, drop=page == 4)

    server = serve(answer)
    records(Rest(server.url, paging=Paging(page="p")), clock=clock)
    connections = [each.connection for each in server.requests]
    assert len(connections) == 6
    assert len(set(connections)) == 3
    assert clock.waits == []


# what would never end


@pytest.mark.parametrize("paging", [Paging(page="p"), Paging(offset="p")])
def test_a_server_that_ignores_the_page_is_found_out(serve: Serve, paging: Paging) -> None:
    server = serve(always(numbered(3)))
    error = failure(Rest(server.url, paging=paging))
    assert "page 2 has the same records as page 1" in error.message
    assert "paging" in (error.remedy or "")
    assert len(server.requests) == 2


def test_the_same_cursor_twice_is_found_out(serve: Serve) -> None:
    following = {"": "a", "a": "b", "b": "a"}

    def answer(request: Request) -> Reply:
        at = request.params.get("c", "")
        return Reply({"d": [{"id": len(server.requests)}], "n": following[at]})

    server = serve(answer)
    error = failure(Rest(server.url, records="d", paging=Paging(cursor="c", next="n")))
    assert "page 3 leads back to page 2" in error.message


def test_the_same_link_twice_is_found_out(serve: Serve) -> None:
    server = serve(lambda _: Reply([{"id": len(server.requests)}], headers={"Link": '</>; rel="next"'}))
    assert "leads back" in failure(Rest(f"{server.url}/", paging=Paging(link=True))).message


def test_empty_pages_without_an_end_are_found_out(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_EMPTY_PAGES", 5)
    server = serve(lambda _: Reply({"d": [], "n": len(server.requests)}))
    assert "were empty" in failure(Rest(server.url, records="d", paging=Paging(cursor="c", next="n"))).message


# what a record is


def test_records_are_the_text_that_came(serve: Serve) -> None:
    texts = [
        '{"a": 1.10, "b": 12345678901234567890123456789, "c": 1e400, "d": -0.0}',
        '{ "a" : "\\u00e9\\ud83d\\ude00 é ]}\\"" , "b":[1.50,{"x":[]}],\n "c":{} }',
        f'{{"a": {"9" * 5000}}}',
        "{}",
    ]
    listed = " ,\n ".join(texts)
    body = '\ufeff {"x": [1, "]"], "data" : {"items": [ ' + listed + ' ] }, "y": {}} \n'
    server = serve(always(body.encode()))
    assert records(Rest(server.url, records="data.items")) == texts


def test_a_body_may_be_packed(serve: Serve) -> None:
    server = serve(always(gzip.compress(b'[{"id": 1}]'), headers={"Content-Encoding": "gzip"}))
    assert ids(Rest(server.url)) == [1]


@pytest.mark.parametrize("packed", [True, False])
def test_an_answer_cannot_take_all_memory(serve: Serve, packed: bool) -> None:
    body = b"[" + b" " * 30_000_000 + b'{"id": 1}]'
    reply = Reply(gzip.compress(body) if packed else body, headers={"Content-Encoding": "gzip"} if packed else {})
    server = serve(lambda _: reply)
    tracemalloc.start()
    try:
        error = failure(Rest(server.url, largest=1_000_000))
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert "more than 1,000,000 bytes" in error.message
    assert "`largest: 1GB`" in (error.remedy or "")
    assert len(server.requests) == 1, "it would be as large the next time"
    assert ids(Rest(server.url, largest=len(body))) == [1]


@pytest.mark.parametrize("body", [b"", b"  ", b"null", b'{"data": null}', b"[]"])
def test_nothing_is_no_records(serve: Serve, body: bytes) -> None:
    assert records(Rest(serve(always(body)).url, records="data" if b"data" in body else "")) == []


@pytest.mark.parametrize(
    ("records_at", "paging", "body", "said"),
    [
        ("items", Paging(), {"data": [], "meta": {}}, "there is an object with the keys data, meta"),
        ("data.items", Paging(), {"data": {"rows": []}}, "there is an object with the keys rows"),
        ("data.items", Paging(), {"data": [1]}, "there is a list"),
        ("data", Paging(), {}, "there is an object with no keys"),
        ("", Paging(page="p"), {"data": [], "meta": {}}, "an object with the keys data, meta, not a list of records"),
        ("n", Paging(), {"n": 5}, "is a single value, not a list of records"),
    ],
)
def test_a_path_that_is_not_there_shows_what_is(
    serve: Serve, records_at: str, paging: Paging, body: object, said: str
) -> None:
    error = failure(Rest(f"{serve(always(body)).url}/x", records=records_at, paging=paging))
    assert said in error.message
    assert "records" in (error.remedy or "")


@pytest.mark.parametrize(
    "body", [b"<!DOCTYPE html><p>Sign in", b'[{"a": 1}', b'[{"a": "\xff"}]', b"[" * 100_000, b"[] x"]
)
def test_what_is_not_json_is_an_error_that_shows_its_beginning(serve: Serve, body: bytes) -> None:
    error = failure(Rest(serve(always(body)).url))
    assert "does not answer with JSON" in error.message
    assert body[:3].decode() in error.message
    assert len(error.message) < 400


# failures


def test_it_is_asked_again_later_and_later(serve: Serve, clock: Clock) -> None:
    statuses = iter([500, 502, 503, 429, 200])
    server = serve(lambda _: Reply([{"id": 1}], next(statuses)))
    assert len(records(Rest(server.url), clock=clock)) == 1
    assert clock.waits == [1, 2, 4, 8]


def test_it_is_asked_only_so_often(serve: Serve, clock: Clock) -> None:
    server = serve(always(status=503))
    error = failure(Rest(f"{server.url}/x", retries=2), clock)
    assert error.message == f"{server.url}/x cannot be read: it answers 503 Service Unavailable. It was asked 3 times."
    assert len(server.requests) == 3
    assert clock.waits == [1, 2]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 422])
def test_what_the_request_itself_is_to_blame_for_is_not_asked_again(serve: Serve, status: int) -> None:
    server = serve(always(status=status))
    assert str(status) in failure(Rest(server.url)).message
    assert len(server.requests) == 1


def test_a_server_says_how_long_to_wait(serve: Serve, clock: Clock) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    told = iter(["7", date, "soon", None])

    def answer(_: Request) -> Reply:
        header = next(told)
        return Reply([], 429 if header else 200, {"Retry-After": header} if header else {})

    records(Rest(serve(answer).url), clock=clock)
    assert clock.waits[0] == 7
    assert 60 < clock.waits[1] <= 100
    assert clock.waits[2] == 4


def test_nobody_waits_for_an_hour(serve: Serve, clock: Clock) -> None:
    error = failure(Rest(serve(always(status=429, headers={"Retry-After": "3600"})).url), clock)
    assert "3,600 s" in error.message
    assert clock.waits == []


@pytest.mark.parametrize(
    "broken",
    [
        Reply(hang_up=True),
        Reply(b'[{"id"', length=500),
        Reply(gzip.compress(b"[]" * 100)[:-9], headers={"Content-Encoding": "gzip"}),
        Reply(b"[]", headers={"Content-Encoding": "gzip"}),
    ],
)
def test_an_answer_that_is_not_whole_is_asked_for_again(serve: Serve, clock: Clock, broken: Reply) -> None:
    server = serve(lambda _: broken if len(server.requests) == 1 else Reply([{"id": 1}]))
    assert len(records(Rest(server.url), clock=clock)) == 1
    assert clock.waits == [1]
    assert "hung up" in failure(Rest(serve(lambda _: broken).url, retries=0)).message


def test_a_server_that_does_not_answer_is_given_up(clock: Clock) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        error = failure(Rest(url, retries=1, timeout=timedelta(milliseconds=50)), clock)
    assert "it did not answer within 0.05 s" in error.message
    assert clock.waits == [1]
    assert "nobody listens there" in failure(Rest(url, retries=0)).message


def test_a_host_that_is_not_known_is_said_so() -> None:
    assert "the name of its host is not known" in failure(Rest("http://nowhere.invalid/x", retries=0)).message


@pytest.mark.parametrize("url", ["ftp://host/x", "file:///etc/passwd", "host/x", "http://host:port/x", "http://"])
def test_only_web_addresses_are_asked(url: str) -> None:
    assert "not that of a web server" in failure(Rest(url)).message


def test_the_rate_is_kept_from_request_to_request(serve: Serve, clock: Clock) -> None:
    server = serve(lambda request: Reply([{"id": request.params["p"]}] if int(request.params["p"]) < 4 else []))
    records(Rest(server.url, paging=Paging(page="p"), rate=4.0), clock=clock)
    assert clock.waits == [0.25, 0.25, 0.25]


def test_time_that_passes_by_itself_counts_for_the_rate(serve: Serve, clock: Clock) -> None:
    def answer(request: Request) -> Reply:
        clock.now += 0.2 if request.params["p"] == "1" else 5.0
        return Reply([{"id": request.params["p"]}] if int(request.params["p"]) < 3 else [])

    records(Rest(serve(answer).url, paging=Paging(page="p"), rate=4.0), clock=clock)
    assert clock.waits == [pytest.approx(0.05)]


# secrets


def secretive(url: str) -> Rest:
    return Rest(
        f"{url}?key={SECRET}",
        headers={"Authorization": f"Bearer {SECRET}", "X-App": "shop"},
        params={"api_key": SECRET},
        retries=0,
        variables={"Authorization": "SHOP_TOKEN"},
    )


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_names_what_was_sent_and_where_it_comes_from(serve: Serve, status: int) -> None:
    server = serve(always({"echo": SECRET}, status=status))
    error = failure(secretive(server.url))
    assert "the header Authorization from the environment variable SHOP_TOKEN" in error.message
    assert "the header X-App as it is in the source's file" in error.message
    assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"


@pytest.mark.parametrize(
    "reply",
    [
        Reply({"error": f"no such key: {SECRET}"}, 400),
        Reply({"error": f"bad query: key={SECRET.replace('/', '%2F')}"}, 400),
        Reply({"auth": f"Bearer {SECRET}"}, 401),
        Reply({"auth": SECRET}, 500),
        Reply(SECRET.encode()),
        Reply({"a": 1}, 302, {"Location": f"ftp://{SECRET}"}),
        Reply({"a": 1}, 302, {"Location": f"/loop?{SECRET}"}),
        Reply({"data": 5}),
        Reply(hang_up=True),
    ],
)
def test_no_secret_is_in_an_error_a_log_or_a_repr(
    serve: Serve, reply: Reply, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    rest = replace(secretive(serve(lambda _: reply).url), paging=Paging(page="p"))
    error = failure(rest)
    captured = capsys.readouterr()
    told = "".join(traceback.format_exception(error)) + str(error) + repr(rest) + caplog.text
    assert SECRET not in told + captured.out + captured.err
    assert SECRET.replace("/", "%2F") not in told


@pytest.mark.parametrize("value", [f"Bearer {SECRET}\n", f"Bearer {SECRET}\r\nX: y", f"{SECRET}é"])
def test_a_header_that_cannot_be_sent_is_named_without_its_value(value: str) -> None:
    error = failure(Rest("http://127.0.0.1:1/", headers={"Authorization": value}))
    assert "The header Authorization cannot be sent" in error.message
    assert SECRET not in "".join(traceback.format_exception(error))


def test_a_redirect_takes_no_header_to_another_server(serve: Serve) -> None:
    other = serve(always([{"id": 1}]))
    here = serve(
        lambda request: Reply(
            status=307, headers={"Location": "/there" if request.path == "/x" else f"{other.url}/elsewhere"}
        )
    )
    secret = {"Authorization": f"Bearer {SECRET}", "X-Api-Key": SECRET}
    assert ids(Rest(f"{here.url}/x", headers=secret)) == [1]
    assert [each.headers["x-api-key"] for each in here.requests] == [SECRET, SECRET]
    assert not {"authorization", "x-api-key"} & set(other.requests[0].headers)


def test_a_link_takes_no_header_to_another_server(serve: Serve) -> None:
    other = serve(always([{"id": 2}]))
    here = serve(lambda _: Reply([{"id": 1}], headers={"Link": f'<{other.url}/x>; rel="next"'}))
    assert ids(Rest(f"{here.url}/x", headers={"Authorization": SECRET}, paging=Paging(link=True))) == [1, 2]
    assert "authorization" not in other.requests[0].headers


@pytest.mark.parametrize(
    ("home", "other", "told"),
    [
        ("https://api.shop/x", "https://API.shop:443/y", True),
        ("http://api.shop/x", "https://api.shop/x", True),
        ("https://api.shop/x", "http://api.shop/x", False),
        ("https://api.shop/x", "https://api.shop:8443/x", False),
        ("http://api.shop:8080/x", "https://api.shop/x", False),
        ("https://api.shop/x", "https://api.shop.evil/x", False),
        ("https://api.shop/x", "https://api.shop@evil/x", False),
    ],
)
def test_a_server_is_the_same_only_by_scheme_host_and_port_or_if_it_turns_to_tls(
    home: str, other: str, told: bool
) -> None:
    assert _may_know(origin(home), origin(other)) is told


def test_redirects_without_an_end_are_an_error(serve: Serve) -> None:
    server = serve(lambda _: Reply(status=302, headers={"Location": f"/{len(server.requests)}"}))
    assert "redirects endlessly" in failure(Rest(server.url)).message


# what is new


def loaded(until: str | None, version: str = "") -> Loaded:
    return Loaded("records", "", version, 0, None, None, 1, 0, None, until, "1", datetime.now(UTC), "run_1")


INCREMENTAL = Rest("", cursor="at", since="from", paging=Paging(page="p"))


def test_records_are_asked_for_from_the_last_value_less_the_overlap_on(serve: Serve) -> None:
    server = serve(always([]))
    rest = replace(INCREMENTAL, url=server.url, overlap=timedelta(hours=1))
    records(rest)
    records(rest, "2026-03-01T00:00:00Z")
    assert [each.params.get("from") for each in server.requests] == [None, "2026-02-28T23:00:00Z"]


def test_the_first_page_is_enough_to_see_what_there_is(serve: Serve) -> None:
    server = serve(lambda request: Reply([{"at": request.params["p"]}]))
    assert api.probe(replace(INCREMENTAL, url=server.url), None) == ['{"at": "1"}']
    assert len(server.requests) == 1


def test_the_newest_value_is_found_whatever_the_order_and_however_it_is_nested() -> None:
    texts = ['{"m": {"at": 9}}', '{"m": {"at": 12345678901234567891}}', '{"m": {"at": null}}', '{"m": {}}']
    assert api.newest(Rest("", cursor="m.at"), texts) == "12345678901234567891"
    assert api.newest(Rest("", cursor="m.at"), texts[2:]) is None


def test_a_cursor_that_no_record_has_is_an_error(serve: Serve) -> None:
    error = failure(replace(INCREMENTAL, url=serve(always([{"id": 1, "when": 2}])).url))
    assert "have no `at`" in error.message
    assert "id, when" in error.message


def test_nothing_is_new_if_no_page_has_a_newer_record(serve: Serve) -> None:
    pages = {"1": [{"at": 9}, {"at": 10}], "2": [{"at": 10, "id": 2}]}
    server = serve(lambda request: Reply(pages.get(request.params["p"], [])))
    rest = replace(INCREMENTAL, url=server.url)
    assert api.offered(rest, loaded("10")) is None
    pages["2"].append({"at": 11})
    portion = api.offered(rest, loaded("10"))
    assert portion is not None
    assert portion.since == "10"


def test_in_an_overlap_something_may_always_be_new(serve: Serve) -> None:
    rest = replace(INCREMENTAL, url=serve(always([])).url, overlap=timedelta(hours=1))
    assert api.offered(rest, loaded("2026-01-01T00:00:00Z")) is not None


def test_a_single_page_is_new_if_it_is_not_what_it_was(serve: Serve) -> None:
    found = numbered(2)
    rest = Rest(serve(lambda _: Reply(found)).url)
    first = api.offered(rest, None)
    assert first is not None
    assert api.offered(rest, loaded(None, first.version)) is None
    found[0]["id"] = 7
    assert api.offered(rest, loaded(None, first.version)) is not None


def test_of_several_pages_without_a_cursor_nobody_knows_without_reading_all(serve: Serve) -> None:
    rest = Rest(serve(always(numbered(2))).url, paging=Paging(page="p"))
    portion = api.offered(rest, None)
    assert portion is not None
    assert api.offered(rest, loaded(None, portion.version)) is not None

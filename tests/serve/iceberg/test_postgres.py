"""What clients send to a lake whose catalog is in Postgres: its texts have no NUL, and its keys an end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mere.lake.lake import Lake
from tests.lake import orders
from tests.serve.iceberg.rest import Rest, error, serving
from tests.services.postgres import Postgres


@pytest.fixture
def rest(tmp_path: Path, postgres_server: Postgres) -> Iterator[Rest]:
    with Lake.create(tmp_path / "lake", catalog=postgres_server.new_database("odd_names")) as lake:
        orders.write(lake, "gold.orders", orders.ORDERS)
        lake.branch("dev")
        with serving(lake) as running:
            yield running


def test_what_the_database_cannot_keep_is_a_client_s_mistake(rest: Rest) -> None:
    schema = {"type": "struct", "fields": []}
    long = "x" * 20_000
    asked: list[tuple[str, str, object]] = [
        ("POST", "dev/namespaces", {"namespace": ["a\x00b"]}),
        ("POST", "dev/namespaces", {"namespace": [long]}),
        ("POST", "dev/namespaces", {"namespace": ["new"], "properties": {"a": "\x00"}}),
        ("POST", "dev/namespaces", {"namespace": ["new"], "properties": {"a\x00": "b"}}),
        ("POST", "dev/namespaces", {"namespace": ["new"], "properties": {long: "b"}}),
        ("POST", "dev/namespaces/gold/properties", {"updates": {"a": "\x00"}}),
        ("POST", "dev/namespaces/gold/tables", {"name": "a\x00b", "schema": schema}),
        ("POST", "dev/namespaces/gold/tables", {"name": long, "schema": schema}),
        (
            "POST",
            "dev/tables/rename",
            {"source": _named("orders"), "destination": _named("a\x00b")},
        ),
        ("POST", "dev/tables/rename", {"source": _named("a\x00b"), "destination": _named("b")}),
        ("POST", "dev/tables/rename", {"source": _named("orders"), "destination": _named(long)}),
        ("GET", "dev/namespaces/gold/tables/a%00b", None),
        ("GET", f"dev/namespaces/gold/tables/{long}", None),
        ("GET", "dev/namespaces/a%00b", None),
        ("GET", "a%00b/namespaces", None),
        ("DELETE", "dev/namespaces/gold/tables/a%00b", None),
        ("DELETE", f"dev/namespaces/{long}", None),
    ]
    wrong = []
    for method, path, body in asked:
        answer = rest.ask(method, path, json=body)
        if not 400 <= error(answer)[0] < 500 or len(answer.content) > 5000:
            wrong.append((method, path[:50], str(body)[:80], answer.text[:200]))
    assert wrong == []
    headers = {"X-Client-Version": "x" * 10_000}
    changed = {"updates": [{"action": "set-properties", "updates": {"a": "\x00"}}]}
    assert rest.post("dev/namespaces/gold/tables/orders", changed, headers=headers).status_code in (200, 400)


def _named(name: str) -> dict[str, object]:
    return {"namespace": ["gold"], "name": name}

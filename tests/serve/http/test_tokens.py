"""Programs come in with tokens: as bearers, or by OAuth2's client credentials, as engines send them."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from mere.lake.lake import Lake
from mere.serve.access.tokens import Tokens
from mere.serve.access.users import Users
from mere.serve.http.oauth import PATH
from tests.lake import orders
from tests.serve.iceberg.rest import Rest, error, roles, serving

DAY = timedelta(days=1)
ORDERS = "main/namespaces/gold/tables/orders"
ROLES = """
roles:
  some: {tables: gold.customers}
  all: {tables: "*"}
users: {ann: some}
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with orders.create(tmp_path_factory.mktemp("tokens")) as lake:
        yield lake


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "users.tokens")


@pytest.fixture
def rest(lake: Lake, tokens: Tokens, tmp_path: Path) -> Iterator[Rest]:
    with serving(lake, Users(tmp_path / "users.json"), roles(ROLES), tokens) as running:
        yield running


def bearer(text: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {text}"}}


def test_a_token_has_the_role_that_it_was_given_or_that_of_its_user(rest: Rest, tokens: Tokens) -> None:
    _, own = tokens.create("ann", None, DAY)
    _, more = tokens.create("ann", "all", DAY)
    _, nobody = tokens.create("eve", None, DAY)
    _, unknown = tokens.create("ann", "other", DAY)
    assert error(rest.get(ORDERS, **bearer(own)))[:2] == (404, "NoSuchTableException")
    assert rest.get(ORDERS, **bearer(more)).status_code == 200
    assert error(rest.get(ORDERS, **bearer(nobody))) == (403, "ForbiddenException", "eve has no role.")
    assert error(rest.get(ORDERS, **bearer(unknown))) == (403, "ForbiddenException", "There is no role other.")


def test_without_roles_a_token_with_a_role_lets_nobody_in(lake: Lake, tokens: Tokens) -> None:
    with serving(lake, tokens=tokens) as rest:
        assert rest.get(ORDERS, **bearer(tokens.create("ann", None, DAY)[1])).status_code == 200
        assert error(rest.get(ORDERS, **bearer(tokens.create("ann", "all", DAY)[1])))[0] == 403
        assert error(rest.get(ORDERS, **bearer("mere")))[0] == 401  # also where everybody is let in without
        assert rest.get(ORDERS).status_code == 200


def test_a_token_ends_at_once_when_it_is_revoked(rest: Rest, tokens: Tokens) -> None:
    token, text = tokens.create("ann", "all", DAY)
    assert rest.get("config", **bearer(text)).status_code == 200
    Tokens(tokens.path).revoke(token.id)
    refused = rest.get("config", **bearer(text))
    assert error(refused)[:2] == (401, "NotAuthorizedException")
    assert refused.headers["WWW-Authenticate"] == 'Bearer realm="mere", Basic realm="mere"'
    assert text.rpartition("_")[2] not in refused.text
    assert error(rest.get("config", **bearer("")))[0] == 401


def test_while_the_tokens_are_not_known_nobody_comes_in_by_one(rest: Rest, tokens: Tokens) -> None:
    _, text = tokens.create("ann", "all", DAY)
    tokens.path.write_text("{")
    time.sleep(0.2)
    assert error(rest.get("config", **bearer(text)))[0] == 503
    answer = exchange(rest, {"grant_type": "client_credentials", "client_secret": text})
    assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")


def exchange(rest: Rest, form: Any, **more: Any) -> requests.Response:
    return rest.session.post(f"http://127.0.0.1:{rest.port}{PATH}", data=form, timeout=60, **more)


def test_engines_exchange_their_credential_for_a_bearer_s_token(rest: Rest, tokens: Tokens) -> None:
    token, text = tokens.create("ann", "all", DAY)
    grant = {"grant_type": "client_credentials", "scope": "catalog"}
    basic = base64.b64encode(f"ann:{text}".encode()).decode()
    forms: list[tuple[dict[str, str], dict[str, str]]] = [
        ({**grant, "client_secret": text}, {}),
        ({**grant, "client_id": "ann", "client_secret": text}, {}),
        ({**grant, "client_id": token.id, "client_secret": text}, {"Authorization": "Bearer "}),
        (grant, {"Authorization": f"Basic {basic}"}),
        (
            {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": text},
            {"Authorization": f"Bearer {text}"},
        ),
    ]
    for form, headers in forms:
        answer = exchange(rest, form, headers=headers)
        assert answer.status_code == 200
        assert answer.headers["Cache-Control"] == "no-store"
        told = answer.json()
        assert (told["token_type"], 86_000 < told["expires_in"] <= 86_400) == ("bearer", True)
        assert rest.get(ORDERS, **bearer(told["access_token"])).status_code == 200


def test_what_is_no_credential_gets_no_token(rest: Rest, tokens: Tokens) -> None:
    _, text = tokens.create("ann", "all", DAY)
    wrong: list[tuple[object, int, str]] = [
        ({"grant_type": "client_credentials", "client_secret": text[:-1]}, 401, "invalid_client"),
        ({"grant_type": "client_credentials", "client_id": "ann"}, 401, "invalid_client"),
        ({"grant_type": "client_credentials", "client_id": "bob", "client_secret": text}, 401, "invalid_client"),
        ({"grant_type": "password", "client_secret": text}, 400, "unsupported_grant_type"),
        ({"client_secret": text}, 400, "unsupported_grant_type"),
        (f"grant_type=client_credentials&client_secret={text}&client_secret=x", 400, "invalid_request"),
        (b"\xff=%ff", 400, "invalid_request"),
        ("x" * 70_000, 413, "invalid_request"),
        ("&".join(f"a{each}=" for each in range(100)), 400, "invalid_request"),
        ("{}", 400, "unsupported_grant_type"),
    ]
    for form, status, kind in wrong:
        form_type = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = exchange(rest, form, headers=form_type)
        assert (answer.status_code, answer.json()["error"]) == (status, kind), form
        assert "access_token" not in answer.text
    assert exchange(rest, "{}", headers={"Content-Type": "application/json"}).status_code == 400
    assert rest.session.get(f"http://127.0.0.1:{rest.port}{PATH}", timeout=60).status_code == 401


def test_the_log_has_who_came_in_by_which_token_and_no_secret(rest: Rest, tokens: Tokens) -> None:
    token, text = tokens.create("ann", "all", DAY)
    exchange(rest, {"grant_type": "client_credentials", "client_secret": text})
    rest.get(f"config?token={text}", **bearer(text))
    rest.get("config", **bearer(text[:-1]))
    first, second, third = rest.told()
    assert (first["user"], first["token"], first["status"]) == ("ann", token.id, 200)
    assert (second["user"], second["token"], second["status"]) == ("ann", token.id, 200)
    assert (third["user"], third["status"], "token" in third) == ("", 401, False)
    assert text.rpartition(f"{token.id}_")[2] not in rest.log.getvalue()

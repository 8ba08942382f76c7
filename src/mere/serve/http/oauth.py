"""OAuth2 client credentials: engines send a token as the client's secret, and get it back as a bearer token."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import parse_qsl, unquote_plus

import anyio.to_thread
import orjson
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mere.serve.access.tokens import Token
from mere.serve.http import body
from mere.serve.http.authentication import Credentials
from mere.serve.http.errors import HttpError, of_any, shortened

PATH = "/iceberg/v1/oauth/tokens"
_PATH = re.compile(r"/iceberg(/trino/[^/]+)?/v1/oauth/tokens")
_LARGEST = 64 << 10  # bytes
_TYPE = "urn:ietf:params:oauth:token-type:access_token"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_UNSENT = {"Cache-Control": "no-store"}  # nothing on the way keeps a token
_KINDS = {401: "invalid_client", 503: "temporarily_unavailable"}


class OAuth:
    """In front of the authentication: whoever asks here has shown nothing yet."""

    def __init__(self, app: ASGIApp, credentials: Credentials) -> None:
        self._app = app
        self._credentials = credentials

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _PATH.fullmatch(scope["path"]) or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        try:
            content = await body.content(Request(scope, receive), _LARGEST)
            token, text = await anyio.to_thread.run_sync(self._token, content, Headers(scope=scope))
        except Exception as error:  # noqa: BLE001 whatever it is, nobody gets a token
            await _refusal(of_any(error))(scope, receive, send)
            return
        scope["state"]["user"] = token.user
        scope["state"]["about"]["token"] = token.id
        await _answer(token, text)(scope, receive, send)

    def _token(self, content: bytes, headers: Mapping[str, str]) -> tuple[Token, str]:
        """A client shows its token in the form, or as the password of its name; one that refreshes, as a bearer."""
        form = _form(content, headers)
        grant = form.get("grant_type", "")
        client, secret = form.get("client_id", ""), form.get("client_secret", "")
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "basic" and not secret:
            client, secret = _pair(given)
        if grant == _EXCHANGE:
            secret = form.get("subject_token", "")
        elif grant != "client_credentials":
            raise HttpError(400, "unsupported_grant_type", "The grant type must be client_credentials.")
        token = self._credentials.token(secret)
        if client and client not in (token.user, token.id):
            raise HttpError(401, "invalid_client", "`client_id` must be the user or the id of the token.")
        return token, secret


def _form(content: bytes, headers: Mapping[str, str]) -> dict[str, str]:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HttpError(400, "invalid_request", "The body must be a form (application/x-www-form-urlencoded).")
    try:
        pairs = parse_qsl(content.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50)
    except ValueError:
        raise HttpError(400, "invalid_request", "The form cannot be read.") from None
    if len({name for name, _ in pairs}) < len(pairs):
        raise HttpError(400, "invalid_request", "A field appears twice.")
    return dict(pairs)


def _pair(given: str) -> tuple[str, str]:
    try:
        client, _, secret = base64.b64decode(given.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return "", ""
    return unquote_plus(client), unquote_plus(secret)


def _answer(token: Token, text: str) -> Response:
    told = {
        "access_token": text,
        "token_type": "bearer",
        "issued_token_type": _TYPE,
        "expires_in": max(1, int((token.expires - datetime.now(UTC)).total_seconds())),
    }
    return Response(orjson.dumps(told), 200, _UNSENT, "application/json")


def _refusal(error: HttpError) -> Response:
    """In the form of RFC 6749, which is another one than the catalog's."""
    kind = error.type if error.type.islower() else _KINDS.get(error.status, "invalid_request")
    told = {"error": kind, "error_description": shortened(error.message)}
    return Response(orjson.dumps(told), error.status, {**error.headers, **_UNSENT}, "application/json")

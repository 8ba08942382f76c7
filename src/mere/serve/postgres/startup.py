"""How a connection begins: encryption, parameters, authentication."""

from __future__ import annotations

import asyncio
import re
import ssl
import struct
from dataclasses import dataclass, field

from mere.serve.access import scram
from mere.serve.access.admission import Guesses
from mere.serve.access.scram import Verifier
from mere.serve.access.users import Users
from mere.serve.postgres import wire
from mere.serve.postgres.link import Gone, Link
from mere.serve.protocol.body import Body, violation
from mere.serve.protocol.port import PgError

_LONGEST = 10_000  # bytes of a start-up message, as Postgres allows
_LOOPBACK = ("127.", "::1", "::ffff:127.")
_OWN = ("user", "database", "replication", "options")  # what is no setting
_UTF8 = ("utf8", "unicode", "sqlascii")


@dataclass(frozen=True)
class Policy:
    """Who is let in. Without `users` everybody is, from this machine; `tls` is needed by everybody else."""

    users: Users | None = None
    tls: ssl.SSLContext | None = None
    binding: bytes | None = None  # the hash of the certificate


@dataclass(frozen=True)
class Client:
    user: str
    database: str
    settings: dict[str, str]
    address: str
    verifier: Verifier | None = field(default=None, repr=False)  # of the password that it was let in with
    process: int = 0
    secret: int = 0


@dataclass(frozen=True)
class Cancel:
    """A connection that is only there to end what another one does."""

    process: int
    secret: int


async def begin(link: Link, policy: Policy, timeout: float, guesses: Guesses) -> Client | Cancel:
    """PgError where the client cannot be let in, Gone where it has left."""
    content = await _parameters(link, policy, timeout)
    version, body = int.from_bytes(content[:4]), content[4:]
    if version == wire.CANCEL_REQUEST:
        if len(body) != 8:
            raise violation("invalid length of cancel request")
        process, secret = struct.unpack("!iI", body)
        return Cancel(process, secret)
    if version >> 16 != 3:
        raise PgError(
            "0A000", f"unsupported frontend protocol {version >> 16}.{version & 0xFFFF}: server supports 3.0 to 3.0"
        )
    given = _pairs(body)
    unknown = [name for name in given if name.startswith("_pq_.")]
    if version > wire.PROTOCOL or unknown:
        link.say(wire.negotiate(unknown))
    user = given.get("user", "")
    if not user:
        raise PgError("28000", "no PostgreSQL user name specified in startup packet")
    if given.get("replication", "false").lower() not in ("false", "off", "no", "0", ""):
        raise PgError("0A000", "replication is not supported")
    _check_encoding(given)
    link.user = user
    verifier = await _authenticate(link, policy, user, guesses)
    link.say(wire.authentication(wire.AUTHENTICATED))
    settings = {name: value for name, value in given.items() if name not in (*_OWN, *unknown)}
    settings = _options(given.get("options", "")) | settings
    return Client(user, given.get("database") or user, settings, link.peer, verifier)


def _check_encoding(given: dict[str, str]) -> None:
    """Only one is spoken. It has many spellings; SQL_ASCII means that the client takes what comes."""
    asked = given.get("client_encoding", "utf8")
    if re.sub("[^a-z0-9]", "", asked.lower()) not in _UTF8:
        raise PgError(
            "22023", f'invalid value for parameter "client_encoding": "{asked}"', hint="Set PGCLIENTENCODING=UTF8."
        )
    given["client_encoding"] = "UTF8"


async def _parameters(link: Link, policy: Policy, timeout: float) -> bytes:
    """The start-up message itself, after the requests for encryption that may come before it."""
    for _ in range(3):
        content = await link.first(_LONGEST)
        if len(content) < 4:
            raise violation("invalid length of startup packet")
        request = int.from_bytes(content[:4])
        if request not in (wire.SSL_REQUEST, wire.GSS_REQUEST):
            return content
        if link.waiting:
            # Somebody may have put these bytes before what the client says under encryption.
            raise violation("received unencrypted data after encryption request")
        if request == wire.SSL_REQUEST and policy.tls is not None and not link.secured:
            link.say(b"S")
            link.flush()
            await link.start_tls(policy.tls, timeout)
        else:
            link.say(b"N")
            link.flush()
    raise Gone


def _pairs(body: bytes) -> dict[str, str]:
    reader, found = Body(body), dict[str, str]()
    while name := reader.text():
        found[name] = reader.text()
    reader.end()
    return found


def _options(text: str) -> dict[str, str]:
    """`-c name=value` and `--name=value`, with a backslash before a space that is meant."""
    words, word, escaped = [], "", False
    for each in text + " ":
        if escaped or each not in "\\ ":
            word, escaped = word + each, False
        elif each == "\\":
            escaped = True
        elif word:
            words.append(word)
            word = ""
    found, rest = {}, iter(words)
    for each in rest:
        pair = next(rest, "") if each == "-c" else each.removeprefix("-c").removeprefix("--")
        name, equals, value = pair.partition("=")
        if not equals or not name or not each.startswith("-"):
            raise PgError("42601", f'invalid command-line argument for server process: "{each}"')
        found[name.replace("-", "_")] = value
    return found


async def _authenticate(link: Link, policy: Policy, user: str, guesses: Guesses) -> Verifier | None:
    local = link.peer.startswith(_LOOPBACK)
    if not local and not link.secured:
        raise PgError("28000", "connections from other machines have to use TLS", hint="Connect with sslmode=require.")
    if policy.users is None:
        if not local:
            raise PgError("28000", f'no entry for user "{user}" from this machine')
        return None
    policy.users.admit()
    binding = policy.binding if link.secured else None
    offered = [scram.BOUND, scram.PLAIN] if binding is not None else [scram.PLAIN]
    link.say(wire.authentication(wire.SASL, b"".join(map(wire.zero, offered)) + b"\0"))
    link.flush()
    body = Body(await _response(link))
    mechanism, first = body.text(), body.value()
    if mechanism not in offered or first is None:
        raise violation("client selected an invalid SASL authentication mechanism")
    verifier = policy.users.presented(user)
    exchange = scram.Exchange(verifier, mechanism, binding)
    try:
        link.say(wire.authentication(wire.SASL_GO_ON, exchange.first(first)))
        link.flush()
        proof = await _response(link)
        if (seconds := guesses.wait(user, link.peer)) > 0:
            await asyncio.sleep(seconds)
        # Nothing is awaited from here on: another attempt is only looked at when it is known how this one ended.
        final = exchange.final(proof)
    except scram.Refused as error:
        guesses.failed(user, link.peer)
        raise PgError("28P01", f'password authentication failed for user "{user}"') from error
    guesses.succeeded(user, link.peer)
    link.say(wire.authentication(wire.SASL_DONE, final))
    return verifier


async def _response(link: Link) -> bytes:
    letter, content = await link.message(scram.LONGEST + 64)
    if letter != b"p":
        raise violation(f"expected SASL response, got message type {letter[0]}")
    return content

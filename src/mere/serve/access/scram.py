"""SCRAM-SHA-256, the server's side (RFC 5802, RFC 7677), with channel binding to the server's certificate (RFC 5929).

A server keeps a verifier, from which neither the password nor anything that can log in is found; it is spelled as
Postgres spells it, so that verifiers can be moved between the two.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import stringprep
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

PLAIN = "SCRAM-SHA-256"
BOUND = "SCRAM-SHA-256-PLUS"
ITERATIONS = 4096  # as Postgres: each login costs the server nothing, and each guess of a thief this many hashes
LONGEST = 1024  # bytes of a message, as Postgres allows

_VERIFIER = re.compile(r"SCRAM-SHA-256\$(\d+):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)")


class Refused(Exception):
    """The exchange failed. The client is told no more than that."""


@dataclass(frozen=True)
class Verifier:
    iterations: int
    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @classmethod
    def of(cls, password: str, *, salt: bytes | None = None, iterations: int = ITERATIONS) -> Verifier:
        salt = secrets.token_bytes(16) if salt is None else salt
        salted = hashlib.pbkdf2_hmac("sha256", prepared(password).encode(), salt, iterations)
        stored_key = hashlib.sha256(_hmac(salted, b"Client Key")).digest()
        return cls(iterations, salt, stored_key, _hmac(salted, b"Server Key"))

    def fits(self, password: str) -> bool:
        """Where a client has sent the password itself."""
        given = Verifier.of(password, salt=self.salt, iterations=self.iterations)
        return hmac.compare_digest(given.stored_key, self.stored_key)

    @classmethod
    def read(cls, text: str) -> Verifier:
        """ValueError where it is none."""
        found = _VERIFIER.fullmatch(text)
        if found is None:
            raise ValueError("not a SCRAM-SHA-256 verifier")
        salt, stored_key, server_key = (base64.b64decode(each, validate=True) for each in found.groups()[1:])
        if len(stored_key) != 32 or len(server_key) != 32 or not int(found[1]):
            raise ValueError("not a SCRAM-SHA-256 verifier")
        return cls(int(found[1]), salt, stored_key, server_key)

    def __str__(self) -> str:
        return f"{PLAIN}${self.iterations}:{_base64(self.salt)}${_base64(self.stored_key)}:{_base64(self.server_key)}"


def nobody(user: str, secret: bytes, known: Iterable[Verifier] = ()) -> Verifier:
    """For a user that does not exist: the same salt at every attempt, and as many iterations as most others have. So
    nobody finds out who exists."""
    usual = Counter((each.iterations, len(each.salt)) for each in known).most_common(1)
    iterations, size = usual[0][0] if usual else (ITERATIONS, 16)
    salt = b"".join(_hmac(secret, f"{part} {user}".encode()) for part in range(1 + size // 32))[:size]
    return Verifier(iterations, salt, secrets.token_bytes(32), secrets.token_bytes(32))


class Exchange:
    """One login: `first` answers the client's first message, `final` its second, or they raise Refused.

    `binding` is the hash of the server's certificate if the connection has TLS and the binding was offered;
    `mechanism` is what the client has chosen.
    """

    def __init__(self, verifier: Verifier, mechanism: str, binding: bytes | None, nonce: str | None = None) -> None:
        self._verifier = verifier
        self._mechanism = mechanism
        self._binding = binding
        self._nonce = nonce or _base64(secrets.token_bytes(18))
        self._header = b""
        self._client_first = self._server_first = ""

    def first(self, message: bytes) -> bytes:
        # p=binding or n or y, the user's name, which Postgres's clients leave to the start-up message, and the nonce.
        found = re.fullmatch(r"((p=[A-Za-z0-9.-]+|n|y),(?:a=[^,]*)?,)(n=[^,]*,r=([!-+\--~]+)(?:,.*)?)", _ascii(message))
        if found is None:
            raise Refused("malformed first message")
        header, flag, self._client_first, nonce = found.groups()
        self._check(flag)
        self._header = header.encode()
        self._nonce = nonce + self._nonce
        self._server_first = f"r={self._nonce},s={_base64(self._verifier.salt)},i={self._verifier.iterations}"
        return self._server_first.encode()

    def final(self, message: bytes) -> bytes:
        found = re.fullmatch(r"(c=([A-Za-z0-9+/=]+),r=([^,]+)(?:,.*)?),p=([A-Za-z0-9+/=]+)", _ascii(message))
        if found is None or not self._server_first:
            raise Refused("malformed final message")
        without_proof, bound, nonce, proof = found.groups()
        binding = self._binding if self._mechanism == BOUND and self._binding is not None else b""
        if not hmac.compare_digest(_bytes(bound), self._header + binding):
            raise Refused("channel binding check failed")
        if not hmac.compare_digest(nonce, self._nonce):
            raise Refused("nonce does not match")
        said = ",".join((self._client_first, self._server_first, without_proof)).encode()
        signature = _hmac(self._verifier.stored_key, said)
        given = _bytes(proof)
        if len(given) != len(signature):
            raise Refused("malformed proof")
        client_key = bytes(left ^ right for left, right in zip(given, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(client_key).digest(), self._verifier.stored_key):
            raise Refused("wrong password")
        return b"v=" + _base64(_hmac(self._verifier.server_key, said)).encode()

    def _check(self, flag: str) -> None:
        """That nobody between the two has taken the offer of a binding away."""
        if self._mechanism == BOUND:
            if flag != "p=tls-server-end-point" or self._binding is None:
                raise Refused("unsupported channel binding")
        elif flag.startswith("p="):
            raise Refused("channel binding without its mechanism")
        elif flag == "y" and self._binding is not None:
            raise Refused("the client did not see that channel binding was offered")


def prepared(password: str) -> str:
    """SASLprep (RFC 4013). What it forbids is taken as it is, as Postgres does."""
    kept = [" " if stringprep.in_table_c12(each) else each for each in password if not stringprep.in_table_b1(each)]
    text = unicodedata.ucd_3_2_0.normalize("NFKC", "".join(kept))
    forbidden = (
        stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4,
        stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8,
        stringprep.in_table_c9, stringprep.in_table_a1,
    )  # fmt: skip
    right_to_left = [stringprep.in_table_d1(each) for each in text]
    mixed = any(right_to_left) and (
        any(map(stringprep.in_table_d2, text)) or not (right_to_left[0] and right_to_left[-1])
    )
    if not text or mixed or any(table(each) for each in text for table in forbidden):
        return password
    return text


# Which hash a certificate's signature uses, by the end of its algorithm's object identifier in DER. RFC 5929 takes
# SHA-256 in place of weaker ones, and says nothing of others: then no binding is offered.
_HASHES = {
    bytes.fromhex("2a864886f70d010104"): "sha256",  # md5WithRSA
    bytes.fromhex("2a864886f70d010105"): "sha256",  # sha1WithRSA
    bytes.fromhex("2a864886f70d01010b"): "sha256",
    bytes.fromhex("2a864886f70d01010c"): "sha384",
    bytes.fromhex("2a864886f70d01010d"): "sha512",
    bytes.fromhex("2a8648ce3d0401"): "sha256",  # ecdsa-with-SHA1
    bytes.fromhex("2a8648ce3d040302"): "sha256",
    bytes.fromhex("2a8648ce3d040303"): "sha384",
    bytes.fromhex("2a8648ce3d040304"): "sha512",
}


def certificate_hash(der: bytes) -> bytes | None:
    """What the channel is bound to: tls-server-end-point. None where that is not defined for the certificate."""
    certificate, _ = _element(der, 0)
    _, body_end = _element(der, certificate)  # what is signed; the algorithm follows it
    algorithm, _ = _element(der, body_end)
    start, end = _element(der, algorithm)
    name = _HASHES.get(der[start:end])
    return hashlib.new(name, der).digest() if name else None


def _element(der: bytes, at: int) -> tuple[int, int]:
    """Where the content of the DER element at this place begins and ends."""
    length, start = der[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length, start = int.from_bytes(der[start : start + size]), start + size
    return start, start + length


def _hmac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise Refused("not base64") from error


def _ascii(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise Refused("not a text") from error

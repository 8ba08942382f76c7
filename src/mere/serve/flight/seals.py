"""What clients keep for the server, sealed so that nobody can change it: tokens, tickets, prepared statements.

So the server stores next to nothing about its clients, and nothing piles up when they leave without a word.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field

from mere.serve.flight import messages
from mere.serve.protocol.port import PgError

_LENGTH = 32  # bytes of a seal
_STATEMENT = "statement"


@dataclass(frozen=True)
class Seals:
    """They hold as long as the process."""

    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def close(self, purpose: str, content: bytes) -> bytes:
        return hmac.digest(self.secret, purpose.encode() + b"\0" + content, "sha256") + content

    def holds(self, purpose: str, sealed: bytes) -> bool:
        return hmac.compare_digest(self.close(purpose, content(sealed)), sealed)


def content(sealed: bytes) -> bytes:
    """Whatever is said there: whether the seal holds is another question."""
    return sealed[_LENGTH:]


@dataclass(frozen=True)
class Handle(messages.Message):
    """A statement, and what is settled of it already: of a prepared one its transaction, and its values once they are
    bound; of a ticket also the commit that it reads, and the schema of what it returns."""

    user: str = ""
    database: str = ""
    text: str = ""
    transaction: bytes = b""
    values: bytes = b""  # one batch, as a stream of Arrow's
    oids: tuple[int, ...] = ()
    commit: str = ""
    schema: bytes = b""

    def sealed(self, seals: Seals) -> bytes:
        return seals.close(_STATEMENT, messages.encode(self))

    @classmethod
    def opened(cls, sealed: bytes, seals: Seals, user: str) -> Handle:
        """PgError 26000 where it is another user's, or of a server that has ended."""
        if seals.holds(_STATEMENT, sealed):
            found = messages.decode(cls, content(sealed))
            if found.user == user:
                return found
        raise PgError("26000", "this statement is not known here", hint="Prepare it again.")

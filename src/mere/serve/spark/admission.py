"""Who may use a shared Spark, and as whom."""

from __future__ import annotations

import hmac

from mere.serve.access.tokens import Tokens
from mere.serve.protocol.port import PgError

_SHORT = "Give it as ;token=… at the end of the address, or in SPARK_CONNECT_AUTHENTICATE_TOKEN."


class Refused(Exception):
    """Says why, for the client."""


class Admission:
    """By the tokens of `mere token`; by one secret for all; or everybody, where there is neither."""

    def __init__(self, tokens: Tokens | None = None, secret: str | None = None) -> None:
        self._tokens = tokens
        self._secret = secret

    def user(self, authorization: str, claimed: str) -> str:
        """The name under which the caller works. `claimed`: what its client says, which only counts where nobody has
        to show anything."""
        if self._tokens is None and self._secret is None:
            return claimed
        scheme, _, given = authorization.partition(" ")
        shown = given.strip() if scheme.lower() == "bearer" else ""
        if not shown:
            raise Refused(f"This server asks for a token. {_SHORT}")
        if self._tokens is None:
            if not hmac.compare_digest(shown.encode(), str(self._secret).encode()):
                raise Refused("The token is not the one of this server.")
            return claimed
        return self._owner(self._tokens, shown)

    @staticmethod
    def _owner(tokens: Tokens, shown: str) -> str:
        try:
            tokens.admit()
        except PgError as error:
            raise Refused("No token is accepted: the file of the tokens cannot be used.") from error
        found = tokens.of(shown)
        if found is None:
            raise Refused("The token is not valid on this server: it is unknown, has expired or was revoked.")
        if found.role is not None:
            raise Refused(
                f"The token has the role {found.role}. Whoever works in Spark has the rights of the server, so a role"
                f" would not hold. Create a token without one: mere token create {found.user}"
            )
        return found.user

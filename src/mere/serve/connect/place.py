"""Where a lake is served, and the user and ref that a tool connects with. It has no secrets in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import quote

from mere.config import S3Settings
from mere.errors import UsageError
from mere.names import RefExpression

TOKEN = "MERE_TOKEN"  # the environment variable in which tools find a token
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*")
_HERE = ("localhost", "::1")


@dataclass(frozen=True)
class Place:
    ref: str
    user: str
    host: str = "localhost"
    port: int = 5439
    http_port: int = 8181
    tls: bool = False
    trusted: bool = False  # this machine is let in without a token
    on_s3: bool = False  # the files of the lake
    s3: S3Settings | None = field(default=None, repr=False)  # where that is, if it is known here

    def __post_init__(self) -> None:
        RefExpression.parse(self.ref)
        if not _HOST.fullmatch(self.host):
            raise UsageError(f"{self.host!r} is not a host name.", remedy="Give a name or an address: --host HOST")
        if not self.user.isprintable() or not self.user:
            raise UsageError(f"{self.user!r} cannot be a user's name.", remedy="Name one: --user NAME")
        if self.trusted and not self.is_here:
            raise UsageError(f"{self.host} requires a token.", remedy="Leave --trust out.")

    @property
    def is_here(self) -> bool:
        return self.host in _HERE or re.fullmatch(r"127(\.\d{1,3}){3}", self.host) is not None

    @property
    def catalog(self) -> str:
        """The ref as a name that no tool has to quote."""
        found = re.sub(r"[^a-z0-9_]", "_", self.ref.lower())
        return found if found[0].isalpha() else f"ref_{found}"

    @property
    def uri(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self._in_url}:{self.http_port}/iceberg"

    @property
    def address(self) -> str:
        """Of the Postgres side."""
        return f"{self._in_url}:{self.port}"

    @property
    def database(self) -> str:
        """The ref in a URL."""
        return quote(self.ref, safe="")

    @property
    def _in_url(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

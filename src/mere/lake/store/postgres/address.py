"""The address of a Postgres database: parses its URL, connects, and reports errors without the password."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mere.errors import LakeError, LakeUnreadable

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

# An @ that ends no user and password has to be written %40: libpq would read a part of a password as a host's name.
_URL = re.compile(r"(?:postgresql|postgres)://(?:[^@/]*@)?(?P<place>[^@?]*)(?:\?[^@]*)?", re.DOTALL)
_PORTS = re.compile(r"[0-9,]*")
_UNRESOLVED = ("resolve host", "translate host name")
_FINAL = ("authentication failed", "does not exist", "no password supplied", "pg_hba.conf", *_UNRESOLVED)
UNTOUCHED = "Nothing was changed."
GRANT = (
    "Let the owner of the tables grant what is missing: to read a lake takes SELECT on all of them, to write to it"
    " INSERT, UPDATE and DELETE as well."
)
_TLS = {"sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY"}


@dataclass(frozen=True)
class PostgresAddress:
    """It prints without user, password and options."""

    shown: str
    url: str = field(repr=False)
    given: Mapping[str, str] = field(repr=False)  # what the URL says, by libpq's names

    @classmethod
    def parse(cls, url: str) -> PostgresAddress:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        match = _URL.fullmatch(url)
        try:
            given = {name: str(value) for name, value in conninfo_to_dict(url).items()} if match else {}
        except psycopg.ProgrammingError:  # its text quotes what it cannot read, and that may be a password
            match = None
        if not match or not _PORTS.fullmatch(given.get("port", "")):
            raise LakeUnreadable(
                "The address of the database cannot be used: it is not a URL that Postgres understands.",
                remedy="Write postgresql://user@host:port/database. In a user or password each of % / @ : ? # [ ] and"
                " the space is percent-encoded; what ${NAME} brings into mere.yaml is encoded by mere.",
            ) from None
        return cls(f"postgresql://{match['place']}", url, given)

    def __str__(self) -> str:
        return self.shown

    def connect(self, name: str, **settings: int) -> Connection:
        """A connection whose settings the URL may overrule. What another attempt cannot mend is said at once; what a
        server does that is being restarted is left to the caller, as psycopg's error."""
        import psycopg
        from psycopg.conninfo import make_conninfo

        ours = "".join(f"-c {setting}={value} " for setting, value in settings.items())
        wanted = {"connect_timeout": "10", "application_name": name} | dict(self.given)
        wanted["options"] = f"{ours}{self._options}".strip()
        try:
            # Prepared statements would not survive a pooler between us and Postgres.
            return psycopg.connect(make_conninfo(**wanted), prepare_threshold=None)
        except psycopg.errors.ConnectionTimeout as error:
            raise self.failure(error) from None
        except psycopg.OperationalError as error:
            if any(text in str(error) for text in _FINAL):
                raise self.failure(error) from None
            raise

    @contextmanager
    def opened(self, name: str, **settings: int) -> Iterator[Connection]:
        """A transaction that is rolled back, unless it is committed inside."""
        import psycopg

        try:
            with closing(self.connect(name, **settings)) as connection:
                yield connection
        except psycopg.Error as error:
            raise self.failure(error) from error

    def failure(self, error: BaseException | None, then: str = UNTOUCHED) -> LakeUnreadable:
        from psycopg import errors

        if isinstance(error, errors.InsufficientPrivilege):
            return LakeUnreadable(f"Postgres refused: {line(error)}. {then}", remedy=GRANT)
        return LakeUnreadable(
            f"{self} cannot be used: {line(error)}. {then}",
            remedy="Check that Postgres runs there, and the user and password in the environment; then try again.",
        )

    @property
    def _options(self) -> str:
        return self.given.get("options") or os.environ.get("PGOPTIONS", "")

    # for engines

    def jdbc(self, connection: Connection) -> dict[str, str]:
        """As this connection found it: libpq asks the environment and ~/.pgpass, which the JVM does not."""
        found = connection.info
        if not found.host or found.host.startswith(("/", "@")):
            raise LakeError(
                f"Spark cannot reach {self}: it is the address of a Unix socket, and JDBC only speaks TCP.",
                remedy="Name a host: postgresql://localhost/database.",
            )
        host = f"[{found.host}]" if ":" in found.host else found.host
        more = {name: self.given.get(name) or os.environ.get(variable, "") for name, variable in _TLS.items()}
        more["options"] = self._options
        return {
            "uri": f"jdbc:postgresql://{host}:{found.port}/{quote(found.dbname, safe='')}",
            "jdbc.user": found.user,
            "jdbc.password": found.password,
            **{f"jdbc.{name}": value for name, value in more.items() if value},
        }

    @property
    def sqlalchemy(self) -> str:
        return "postgresql+psycopg" + self.url[self.url.index(":") :]


def line(error: BaseException | None) -> str:
    """What an error says, on one line."""
    text = str(error).strip().splitlines()
    if not text:
        return type(error).__name__
    if any(words in text[0] for words in _UNRESOLVED):
        return "the name of its host is not known"
    return text[0].rstrip(".")

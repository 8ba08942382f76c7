"""Where the lakes of the tests are: on SQLite and the local disk, on Postgres and the disk, on Postgres and S3."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mere.config import S3Settings
from mere.lake.lake import Lake
from tests.lake.foreign import Foreign, ForeignOnPostgres
from tests.services.postgres import Postgres
from tests.services.s3 import S3Server

LOCAL, POSTGRES, S3 = "sqlite", "postgres", "postgres and s3"


@dataclass(frozen=True)
class Place:
    path: str
    catalog: str | None = None
    s3: S3Settings | None = None

    def create(self) -> Lake:
        return Lake.create(self.path, catalog=self.catalog, s3=self.s3)

    def open(self) -> Lake:
        """The same lake, as another process would open it."""
        return Lake.open(self.path, catalog=self.catalog, s3=self.s3)

    def engine(self, lake: Lake) -> Foreign:
        return ForeignOnPostgres(lake, self.catalog) if self.catalog else Foreign(lake)

    @property
    def environment(self) -> Mapping[str, str]:
        """For a process that is not told how to reach S3."""
        if self.s3 is None:
            return os.environ
        assert self.s3.endpoint is not None
        return {
            **os.environ,
            "AWS_ACCESS_KEY_ID": self.s3.access_key,
            "AWS_SECRET_ACCESS_KEY": self.s3.secret_key,
            "AWS_ENDPOINT_URL": self.s3.endpoint,
        }


class Kept:
    """A lake that was made once, for many tests. Its files never change: its catalog is all that is put back."""

    def __init__(self, at: Place, request: pytest.FixtureRequest) -> None:
        """Nobody may have it open."""
        self._at = at
        self._request = request
        self._file = Path(at.path, "catalog.db")
        self._content = b"" if at.catalog else self._file.read_bytes()

    def again(self) -> Place:
        if self._at.catalog is None:
            for path in self._file.parent.glob("catalog.db*"):
                path.unlink()
            self._file.write_bytes(self._content)
            return self._at
        server: Postgres = self._request.getfixturevalue("postgres_server")
        name = self._at.catalog.rpartition("/")[2]
        return replace(self._at, catalog=server.new_database(f"lake_{secrets.token_hex(6)}", like=name))


def place(kind: str, folder: Path, request: pytest.FixtureRequest) -> Place:
    """A new place; the servers that it needs are started by the first test that needs them."""
    if kind == LOCAL:
        return Place(str(folder / "lake"))
    server: Postgres = request.getfixturevalue("postgres_server")
    catalog = server.new_database(f"lake_{secrets.token_hex(6)}")
    if kind == POSTGRES:
        return Place(str(folder / "lake"), catalog)
    s3: S3Server = request.getfixturevalue("s3_server")
    return Place(f"{request.getfixturevalue('s3_bucket')}/{secrets.token_hex(6)}/lake", catalog, s3.settings)

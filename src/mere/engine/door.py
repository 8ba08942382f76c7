"""The refs of a lake over HTTP: a session's way to them where its profile says `catalog: rest`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mere.sparkconfig import RestSettings


class Catalog(Protocol):
    """A ref as a catalog of Spark: its properties come without Spark's prefix."""

    @property
    def name(self) -> str: ...
    @property
    def properties(self) -> Mapping[str, str]: ...


class Lake(Protocol):
    """What a door needs of a lake."""

    def catalog_name(self, ref: str) -> str: ...
    def spark_catalog(self, ref: str, rest: RestSettings | None = None) -> Catalog: ...


class Server(Protocol):
    """A REST catalog that a session has opened for itself."""

    @property
    def uri(self) -> str: ...
    def token(self, ref: str, author: str | None = None) -> str:
        """By which this ref can be read and written, and no other; in the name of the author, or of the session's."""
        ...

    def close(self) -> None: ...


Check = Callable[[], None]  # raises where nothing may be written any more


class Opener(Protocol):
    def __call__(self, lake: Lake, *, author: str, signs: bool, check: Check) -> Server: ...


# The engine knows no server: mere/__init__.py, where the parts meet, puts it here.
opener: Opener | None = None


class Door:
    """What a session sees of its lake instead of the catalog's database."""

    def __init__(self, lake: Lake, settings: RestSettings, author: str, check: Check) -> None:
        self._lake = lake
        self._settings = settings
        self._server: Server | None = None
        if settings.uri is None:
            assert opener is not None
            self._server = opener(lake, author=author, signs=settings.signed, check=check)

    def spark_catalog(self, ref: str, author: str | None = None) -> Catalog:
        """`author`: of what is written, if it is not the session's. A server at `uri` goes by its token."""
        if self._server is None:
            return self._lake.spark_catalog(ref, self._settings)
        name = self._lake.catalog_name(ref)
        own = replace(self._settings, uri=self._server.uri, token=self._server.token(name, author))
        return self._lake.spark_catalog(name, own)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

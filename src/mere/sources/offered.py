"""What a source offers that has not been loaded yet: asked once per run, however often its plan is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

from mere.errors import MereError, SourceError
from mere.names import TableName
from mere.sources.cursor import later
from mere.sources.landing import Landing
from mere.sources.source import Database, Feed, Files, Function, Loaded, Portion, Rest, Source
from mere.sources.variables import with_variables


@dataclass(frozen=True)
class Offered:
    """What a source has to give, by what became of it since it was loaded."""

    new: tuple[Portion, ...] = ()
    changed: tuple[Portion, ...] = ()
    same: tuple[Portion, ...] = ()
    gone: tuple[Loaded, ...] = ()
    renamed: tuple[tuple[Portion, Loaded], ...] = ()  # new ones that were loaded under a name that is gone
    problem: str | None = None  # why it cannot be asked
    remedy: str = ""


@dataclass
class Offers:
    """`folder`: of the project, where files that are named by a relative path begin."""

    folder: Path
    landing: Landing | None = None  # where files are kept that may be gone from their place
    _listed: dict[TableName, list[Portion]] = field(default_factory=dict)
    # By what was loaded last: another run may have loaded more meanwhile.
    _answers: dict[tuple[TableName, str | None], list[Portion]] = field(default_factory=dict)
    _checksums: dict[str, str] = field(default_factory=dict)

    def offered(self, table: TableName, source: Source, file: str, loaded: Mapping[str, Loaded]) -> Offered:
        """`file`: where the source is declared; `loaded`: what its ledger says."""
        try:
            if isinstance(source.feed, Files):
                return self._files(table, source, file, loaded)
            return self._records(table, source, file, loaded)
        except MereError as error:
            return Offered(problem=error.message, remedy=error.remedy or "")

    def landed(self, table: TableName, source: Source, gone: Iterable[Loaded]) -> list[Portion]:
        """Files that were loaded and are gone from their place, as far as they are kept."""
        if self.landing is None or not isinstance(source.feed, Files):
            return []
        return list(self.landing.portions(table, source.feed, gone))

    def _files(self, table: TableName, source: Source, file: str, loaded: Mapping[str, Loaded]) -> Offered:
        from mere.sources.listing import listed

        feed = with_variables(source.feed, file, source.line)
        assert isinstance(feed, Files)
        if table not in self._listed:
            self._listed[table] = listed(feed, self.folder)
        portions = self._listed[table]
        new = [each for each in portions if each.name not in loaded]
        known = [each for each in portions if each.name in loaded]
        same = [each for each in known if self._is_same(each, loaded[each.name])]
        kept = {each.name for each in same}
        names = {each.name for each in portions}
        gone = [each for name, each in loaded.items() if name not in names]
        return Offered(
            tuple(new),
            tuple(each for each in known if each.name not in kept),
            tuple(same),
            tuple(gone),
            tuple(self._renamed(new, gone)),
        )

    def _renamed(self, new: Iterable[Portion], gone: Iterable[Loaded]) -> Iterator[tuple[Portion, Loaded]]:
        """By where they are, and by their bytes: a file that was renamed, or is reached by another pattern."""
        by_location = {each.location: each for each in gone}
        by_size: dict[int, list[Loaded]] = {}
        for each in gone:
            if each.rows or each.bad:
                by_size.setdefault(each.size, []).append(each)
        for portion in new:
            alike = (each for each in by_size.get(portion.size, ()) if self._has_bytes_of(portion, each))
            if found := by_location.get(portion.location) or next(alike, None):
                yield portion, found

    def _has_bytes_of(self, portion: Portion, loaded: Loaded) -> bool:
        """Files of different windows have the same bytes by chance."""
        if portion.span and loaded.span and portion.span != loaded.span:
            return False
        return portion.version == loaded.version if loaded.checksum is None else self._has_checksum(portion, loaded)

    def _is_same(self, portion: Portion, loaded: Loaded) -> bool:
        """A file that was only touched, or copied elsewhere, has another time and the same content."""
        return portion.version == loaded.version or self._has_checksum(portion, loaded)

    def _has_checksum(self, portion: Portion, loaded: Loaded) -> bool:
        if loaded.checksum is None or portion.size != loaded.size or "://" in portion.location:
            return False
        from mere.sources.fetch import checksum_of

        path = self.folder / portion.location
        known = f"{path} {portion.version}"
        if known not in self._checksums:
            try:
                self._checksums[known] = checksum_of(path)
            except OSError as error:
                raise SourceError(f"{portion.name} cannot be read: {error.strerror}.") from error
        return self._checksums[known] == loaded.checksum

    def _records(self, table: TableName, source: Source, file: str, loaded: Mapping[str, Loaded]) -> Offered:
        """Of an API, a database or a function: one portion, if there may be something new."""
        last = _last(loaded.values(), has_cursor=getattr(source.feed, "cursor", None) is not None)
        key = table, last.load if last else None
        if key not in self._answers:
            portion = _offered(with_variables(source.feed, file, source.line), last)
            self._answers[key] = [portion] if portion else []
        return Offered(new=tuple(self._answers[key]))


def _last(loaded: Iterable[Loaded], *, has_cursor: bool) -> Loaded | None:
    """By how far it went, if it goes by a cursor: branches may have been published in another order."""
    rows = list(loaded)
    if not has_cursor:
        return max(rows, key=lambda each: each.loaded_at, default=None)
    reached = {each.until: each for each in rows if each.until is not None}
    return reached[reduce(later, reached)] if reached else None


def _offered(feed: Feed, last: Loaded | None) -> Portion | None:
    match feed:
        case Rest():
            from mere.sources.web import rest

            return rest.offered(feed, last)
        case Database():
            from mere.sources import database

            return database.offered(feed, last)
        case Function():
            return Portion("rows", feed.function, "", since=last.until if last else None)
    raise AssertionError("files are listed")

"""Fetches a file of a source to a local one that Spark can read.

A file of this machine is read where it is. One from elsewhere is copied once for each version of it (see `cache`), and
one that Spark cannot read as it is gets unpacked, or a link with a name that Spark reads.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from mere.config import is_s3
from mere.errors import LakeError, MetadataMissing, SourceError
from mere.sources import cache as copies
from mere.sources.listing import CHECK_BUCKET, disk_version, s3_of, unanswered
from mere.sources.pattern import is_on_web
from mere.sources.source import Files, Portion

if TYPE_CHECKING:
    from mere.sources.web import download

Progress = Callable[[int, int | None], None]  # bytes that are there, and of how many

_PART = 8 * 2**20  # of a file on S3, in one request
_PIECE = 2**20
_ZSTD = ".zst"
_RATIO = 500  # of what a file unpacks to; one that is made to fill the disk has thousands
_ANY = 100_000_000  # bytes that are not compared
_MAGIC = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": _ZSTD}
_UNSAFE = re.compile(r"[^A-Za-z0-9.=-]+")
_AGAIN = "None of it was loaded. Run again: the plan then uses what is there now."


@dataclass(frozen=True)
class Fetched:
    path: Path  # its suffix says whether it is packed
    checksum: str | None  # where no ETag stands for the content
    landed: str | None = None  # where it is kept, if it is


def fetched(
    files: Files,
    portion: Portion,
    folder: Path,
    cache: Path,
    progress: Progress,
    wait: Callable[[float], None] = time.sleep,
) -> Fetched:
    """`folder`: of the project. The file has the version that the portion says, or this is an error."""
    return _Fetcher(files, folder, cache, progress, wait).fetched(portion)


def of_landing(path: Path, portion: Portion) -> Fetched:
    """A copy of one that is gone from its place."""
    return Fetched(path, portion.checksum, portion.landed)


def unchanged(portion: Portion, folder: Path) -> bool:
    """Whether a file is still the one that was listed, where it is read in place: a copy does not change."""
    if "://" in portion.location or portion.landed:
        return True
    try:
        return disk_version((folder / portion.location).stat()) == portion.version
    except OSError:
        return False


def checksum_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


@dataclass(frozen=True)
class _Fetcher:
    files: Files
    folder: Path
    cache: Path
    progress: Progress
    wait: Callable[[float], None]

    def fetched(self, portion: Portion) -> Fetched:
        if is_on_web(portion.location):
            return self._copied(portion, (self._address(portion).url, portion.version), self._from_web)
        if is_s3(portion.location):
            settings = s3_of(self.files).s3
            server = settings.endpoint if settings else None
            return self._copied(portion, (server or "", portion.location, portion.version), self._from_s3)
        with _of_disk(portion):
            return self._from_disk(portion)

    def _copied(self, portion: Portion, identity: tuple[str, ...], load: Callable[[Portion, Path], None]) -> Fetched:
        def make(part: Path) -> copies.Made:
            load(portion, part)
            packing = self._packing(part, portion)
            return copies.Made(_unpacked(part, portion) if packing == _ZSTD else part, _named(portion.name, packing))

        with _keeping(portion, self.cache):
            path = copies.cached(self.cache, copies.key(*identity), make)
            self.progress(portion.size, portion.size or None)
            return Fetched(path, None if _is_etag(portion.version) else checksum_of(path))

    def _packing(self, path: Path, portion: Portion) -> str:
        """By the first bytes, and not by the name: a server may pack a file, or unpack it, on the way."""
        if not self.files.format.is_text:
            return ""
        with path.open("rb") as file:
            start = file.read(4)
        packing = next((suffix for magic, suffix in _MAGIC.items() if start.startswith(magic)), "")
        if start and portion.name.endswith(_ZSTD) and packing != _ZSTD:
            raise SourceError(
                f"{portion.location} is not packed with zstd, although its name says so.",
                remedy="Rename it, or pack it again.",
            )
        return packing

    # From this machine

    def _from_disk(self, portion: Portion) -> Fetched:
        path = self.folder / portion.location
        if not unchanged(portion, self.folder):
            path.stat()
            raise _changed(portion)
        checksum = checksum_of(path)
        packing = self._packing(path, portion)
        self.progress(portion.size, portion.size or None)
        # Spark passes over hidden files without a word, and knows by the suffix how one is packed.
        fits = packing != _ZSTD and path.name == _suffixed(path.name, packing)
        if fits and not path.name.startswith((".", "_")):
            return Fetched(path, checksum)

        def make(part: Path) -> copies.Made:
            part.unlink(missing_ok=True)
            part.symlink_to(path.absolute())
            return copies.Made(_unpacked(part, portion) if packing == _ZSTD else part, _named(portion.name, packing))

        identity = (checksum if packing == _ZSTD else "", str(path.absolute()), packing)
        with _keeping(portion, self.cache):
            return Fetched(copies.cached(self.cache, copies.key(*identity), make), checksum)

    # From S3

    def _from_s3(self, portion: Portion, part: Path) -> None:
        """In parts: a request that takes as long as a whole file may would hide one that is never answered."""
        storage, etag = s3_of(self.files), portion.version if _is_etag(portion.version) else None
        with _append_to(part, keep=etag is not None) as file:
            while (done := file.tell()) < portion.size:
                try:
                    piece = storage.read_version(portion.location, done, min(_PART, portion.size - done), etag)
                except MetadataMissing:
                    raise _gone(portion) from None
                except LakeError as error:
                    raise SourceError(f"{error.message} None of it was loaded.", remedy=CHECK_BUCKET) from None
                if not piece:
                    raise _changed(portion)
                file.write(piece)
                self.progress(file.tell(), portion.size)
            os.fsync(file.fileno())

    # From the web

    def _address(self, portion: Portion) -> download.Address:
        from mere.sources.web import download

        return download.address(self.files.location, portion.location)

    def _from_web(self, portion: Portion, part: Path) -> None:
        from mere.sources.web import download, http

        furthest = 0

        def attempt() -> None:
            nonlocal furthest
            try:
                self._from_web_once(portion, part)
            except http.Failure as failure:
                reached = part.stat().st_size
                failure.moved = reached > furthest
                furthest = max(furthest, reached)
                if failure.status == 416:  # of a part that is no part of this file
                    part.unlink()
                    failure.passing = True
                raise

        try:
            http.patiently(attempt, download.TRIES, self.wait)
        except http.Failure as failure:
            if failure.status in (404, 410):
                raise _gone(portion) from None
            raise unanswered(portion.location, "fetched", failure) from None

    def _from_web_once(self, portion: Portion, part: Path) -> None:
        from mere.sources.web import download, http

        # Only with a strong ETag can the rest be asked for: a weak one does not say that the bytes are the same.
        resumes = _is_etag(portion.version) and not portion.version.startswith("W/")
        with _append_to(part, keep=resumes) as file:
            had = file.tell()
            if had and had == portion.size:
                return
            asking = {"Range": f"bytes={had}-", "If-Range": portion.version} if had else {}
            with download.requested(self._address(portion), headers=asking) as answer:
                facts = download.facts(answer)
                resumed = had > 0 and download.starts_at(answer) == had
                # Of the rest of a file, If-Range has already asked for this version alone.
                if not facts.fit(portion.version) and not (resumed and facts.etag is None):
                    raise _changed(portion)
                if not resumed:
                    file.seek(0)
                    file.truncate()
                total = facts.size if facts.size is not None else portion.size or None
                for piece in download.pieces(answer):
                    file.write(piece)
                    self.progress(file.tell(), total)
            if total is not None and file.tell() != total:
                raise http.Failure(f"it broke off after {file.tell()} of {total} bytes", passing=True)
            os.fsync(file.fileno())


# What a copy is, and what it is called


def _is_etag(version: str) -> bool:
    return version.endswith('"')


def _suffixed(name: str, packing: str) -> str:
    name = name.removesuffix(_ZSTD)
    return f"{name}.gz" if packing == ".gz" and not name.endswith(".gz") else name


def _named(name: str, packing: str) -> str:
    """One that a person knows again, and that is harmless in every place that it gets to."""
    stem, dot, suffixes = _UNSAFE.sub("-", name.rpartition("/")[2])[-100:].partition(".")
    return _suffixed(f"{stem.strip('-') or 'file'}{dot}{suffixes}", packing)


def _unpacked(packed: Path, portion: Portion) -> Path:
    """Spark reads no zstd without libraries of the system."""
    path = packed.with_name(".unpacked")
    with _append_to(path) as file:
        most = max(_ANY, _RATIO * packed.stat().st_size)
        for piece in _zstd_pieces(packed, portion):
            if file.tell() + len(piece) > most:
                raise SourceError(
                    f"{portion.location} is not unpacked: it has more than {_RATIO} times its size in it. Nothing of it"
                    " was loaded.",
                    remedy="If that is intended, unpack it yourself: zstd -d FILE",
                )
            file.write(piece)
        os.fsync(file.fileno())
    return path


def _zstd_pieces(packed: Path, portion: Portion) -> Iterator[bytes]:
    import pyarrow as pa

    with pa.input_stream(str(packed), compression="zstd") as stream:
        while True:
            try:
                piece = stream.read(_PIECE)
            except (OSError, ValueError):
                raise SourceError(
                    f"{portion.location} cannot be unpacked: it is cut off or damaged. None of it was loaded.",
                    remedy="Get the file again from where it comes from.",
                ) from None
            if not piece:
                return
            yield piece


@contextmanager
def _append_to(path: Path, *, keep: bool = False) -> Iterator[BinaryIO]:
    """To write at its end, for its owner alone; without `keep`, what it has is dropped."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | (0 if keep else os.O_TRUNC), 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.seek(0, os.SEEK_END)
        yield file


# What is said


@contextmanager
def _of_disk(portion: Portion) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise _gone(portion) from None
    except OSError as error:
        raise SourceError(
            f"{portion.location} cannot be read: {error.strerror or error}. None of it was loaded.",
            remedy="Check its permissions, and those of its folder.",
        ) from None


@contextmanager
def _keeping(portion: Portion, cache: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SourceError(
            f"A copy of {portion.location} cannot be kept in {cache}: {error.strerror or error}.",
            remedy="Make room there, or set MERE_HOME to a folder that you may write to.",
        ) from None


def _gone(portion: Portion) -> SourceError:
    return SourceError(f"{portion.location} is gone since it was listed.", remedy=_AGAIN)


def _changed(portion: Portion) -> SourceError:
    return SourceError(f"{portion.location} has changed since it was listed.", remedy=_AGAIN)

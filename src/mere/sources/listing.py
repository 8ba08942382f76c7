"""Lists the files of a source: one walk through a folder, one listing of a bucket, or one question per window to a web
server, which cannot be listed. Opens no file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING

from mere.config import S3Settings, is_s3
from mere.errors import ConfigError, LakeError, SourceError
from mere.sources.pattern import Match, Pattern, is_on_web
from mere.sources.source import Files, Portion
from mere.windows import FIRST, Span

if TYPE_CHECKING:
    from mere.lake.storage.port import StoredFile
    from mere.lake.storage.s3 import S3Storage
    from mere.sources.web import download, http

_SIDE_BY_SIDE = 8
_MOST_WINDOWS = 10_000
CHECK_BUCKET = "Check `files` and `s3` of the source: the bucket, its endpoint and region, and what the keys may do."


def listed(files: Files, folder: Path, wait: Callable[[float], None] = time.sleep) -> list[Portion]:
    """By time, then by name. `folder`: of the project, where a relative location begins."""
    try:
        pattern = Pattern.parse(files.location)
    except ValueError as error:
        raise SourceError(f"`files` cannot be read: {error}.", remedy="Correct `files` of the source.") from None
    found: Iterable[Portion]
    if is_on_web(pattern.base):
        found = _on_web(files, pattern, wait)
    elif is_s3(pattern.base):
        found = _on_s3(files, pattern)
    else:
        found = _on_disk(pattern, folder)
    return sorted(found, key=lambda portion: (portion.span.start if portion.span else FIRST, portion.name))


def disk_version(status: os.stat_result) -> str:
    return f"{status.st_size}-{status.st_mtime_ns}"


def _portion(pattern: Pattern, name: str, found: Match, version: str, size: int, modified: datetime | None) -> Portion:
    return Portion(name, pattern.location(name), version, size, modified, found.values, found.span)


# On this machine


@dataclass(frozen=True)
class _Walk:
    """Links to folders are followed, but never back into a folder that they lie in."""

    pattern: Pattern

    def below(self, folder: str, above: tuple[str, ...], inside_of: tuple[tuple[int, int], ...]) -> Iterator[Portion]:
        """`above`: the folders from the base to this one; `inside_of`: what these are to the system."""
        for entry in _entries(folder):
            name = "/".join((*above, entry.name))
            found = self.pattern.match(name)
            enters = self.pattern.enters(len(above), entry.name)
            # The system is asked only for what may count: for others, that scandir has seen them is enough.
            status = _status(entry) if found or (enters and not entry.is_file(follow_symlinks=False)) else None
            if status is None:
                continue
            if S_ISDIR(status.st_mode):
                identity = (status.st_dev, status.st_ino)
                if enters and identity not in inside_of:
                    yield from self.below(entry.path, (*above, entry.name), (*inside_of, identity))
            elif found and S_ISREG(status.st_mode):
                yield _of_disk(self.pattern, name, found, status)


def _on_disk(pattern: Pattern, folder: Path) -> Iterator[Portion]:
    if pattern.base.startswith("~/") or pattern.base == "~":
        home = str(Path(pattern.base).expanduser())
        pattern = Pattern.parse("/".join((home, *pattern.parts)))
    base = folder / pattern.base
    try:
        status = base.stat()
        if not S_ISDIR(status.st_mode):
            raise NotADirectoryError
    except FileNotFoundError:
        raise SourceError(f"There is no folder {base}.", remedy="Make it, or correct `files` of the source.") from None
    except NotADirectoryError:
        raise SourceError(f"{base} is not a folder.", remedy="Correct `files` of the source.") from None
    except OSError as error:
        raise _unreadable(str(base), error) from None
    if pattern.is_fixed:
        yield from _one_on_disk(pattern, base)
    else:
        yield from _Walk(pattern).below(str(base), (), ((status.st_dev, status.st_ino),))


def _one_on_disk(pattern: Pattern, base: Path) -> Iterator[Portion]:
    (name,) = pattern.parts
    try:
        status = (base / name).stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unreadable(str(base / name), error) from None
    if not S_ISREG(status.st_mode):
        raise SourceError(
            f"{base / name} is not a file.",
            remedy=f"For the files in a folder write {pattern.location(name)}/*, for all below it {name}/**.",
        )
    if found := pattern.match(name):
        yield _of_disk(pattern, name, found, status)


def _of_disk(pattern: Pattern, name: str, found: Match, status: os.stat_result) -> Portion:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise SourceError(
            f"The name of {pattern.location(name).encode(errors='backslashreplace').decode()} is not UTF-8.",
            remedy="Rename the file.",
        ) from None
    modified = datetime.fromtimestamp(status.st_mtime, UTC)
    return _portion(pattern, name, found, disk_version(status), status.st_size, modified)


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat()
    except FileNotFoundError:
        if entry.is_symlink():
            raise SourceError(f"{entry.path} is a link that leads nowhere.", remedy="Fix or remove it.") from None
        return None  # it went meanwhile
    except OSError as error:
        raise _unreadable(entry.path, error) from None


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise _unreadable(folder, error) from None


def _unreadable(path: str, error: OSError) -> SourceError:
    reason = error.strerror or type(error).__name__
    return SourceError(f"{path} cannot be read: {reason}.", remedy="Check its permissions, and those of its folder.")


# On S3


def s3_of(files: Files) -> S3Storage:
    try:
        return _storage(files.s3 or S3Settings.from_environment())
    except ConfigError as error:
        raise SourceError(
            f"{Pattern.parse(files.location).base} cannot be read. {error.message}",
            remedy="Set them, or name other variables in the source: s3: {access_key: ${NAME}, secret_key: ${NAME}}."
            " A public bucket needs keys, too; any account's will do. Or read it by its web address, https://…",
        ) from None


@lru_cache(8)
def _storage(settings: S3Settings) -> S3Storage:
    """One for all files of a source: its connections stay open."""
    from mere.lake.storage.s3 import S3Storage

    return S3Storage(settings)


def s3_version(file: StoredFile) -> str:
    return file.etag or f"{file.size}-{file.modified_at:%Y%m%dT%H%M%S}"


def _on_s3(files: Files, pattern: Pattern) -> Iterator[Portion]:
    storage = s3_of(files)
    try:
        if pattern.is_fixed:
            one = storage.find(pattern.location(pattern.parts[-1]))
            found = iter([one] if one else [])
        else:
            found = storage.files(pattern.base)
        for each in found:
            name = each.location.removeprefix(f"{pattern.base}/")
            # What a console makes for a folder, `name/`, is listed without its slash, as if it were an empty file.
            if (match := pattern.match(name)) and (each.size or storage.exists(each.location)):
                yield _portion(pattern, name, match, s3_version(each), each.size, each.modified_at)
    except LakeError as error:
        raise SourceError(error.message, remedy=CHECK_BUCKET) from None


# On the web


def _on_web(files: Files, pattern: Pattern, wait: Callable[[float], None]) -> list[Portion]:
    """A window for which the server says 404 has no file yet. Some, a bucket behind a CDN for one, say 403 for what is
    not there: that holds as such where the server gives other windows out."""
    from concurrent.futures import ThreadPoolExecutor

    names = _window_names(files, pattern) if pattern.grain else [pattern.parts[-1]]
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        answers = list(pool.map(lambda name: _look_up(files, pattern.location(name), wait), names))
    found = {name: facts for name, facts in zip(names, answers, strict=True) if facts and not isinstance(facts, str)}
    denied = next((each for each in answers if isinstance(each, str)), None)
    if denied and not found:
        raise SourceError(
            denied, remedy="Check the address in `files` of the source, and the user, password or token in it."
        )
    return [
        _portion(pattern, name, match, facts.version, facts.size or 0, facts.modified)
        for name, facts in found.items()
        if (match := pattern.match(name))
    ]


def _look_up(files: Files, location: str, wait: Callable[[float], None]) -> download.Facts | str | None:
    """None: it is not there. A text: the server does not give it out."""
    from mere.sources.web import download, http

    address = download.address(files.location, location)
    try:
        return http.patiently(lambda: download.looked_up(address), download.TRIES, wait)
    except http.Failure as failure:
        if failure.status in (404, 410):
            return None
        if failure.status == 403:
            return f"{location} cannot be looked up: {failure.words}."
        raise unanswered(location, "looked up", failure) from None


def _window_names(files: Files, pattern: Pattern) -> list[str]:
    assert pattern.grain is not None
    if files.start is None:
        raise SourceError(
            f"Nobody can list the files at {pattern.base}: the first window is not known.",
            remedy="Say when the files begin: `start: 2024-01` in the source.",
        )
    names = []
    for window in Span(files.start, datetime.now(UTC)).windows(pattern.grain):
        names.append(pattern.at(window.start))
        if len(names) > _MOST_WINDOWS:
            raise SourceError(
                f"From {files.start:%Y-%m-%d} on there are more than {_MOST_WINDOWS:,} files at {pattern.base}.",
                remedy="Set a later `start` in the source.",
            )
    return names


def unanswered(location: str, verb: str, failure: http.Failure) -> SourceError:
    remedy = "Check the address in `files` of the source, and the network; then try again."
    if failure.status == 401:
        remedy = "Check the user, password or token in `files` of the source."
    return SourceError(f"{location} cannot be {verb}: {failure.words}.", remedy=remedy)

"""What does not belong in a project's repository: its lakes, mere's own files, generated data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from mere import entries
from mere.config import is_s3

FILE_NAME = ".gitignore"
_OF_MERE = ".mere"
_DEFAULT_LAKE = "lake"


def ignored(settings: Path, *folders: Path) -> list[str]:
    """Lines for a .gitignore: the lakes of all profiles in the project, mere's own folder, and the folders given."""
    top = entries.read(settings).entries()
    profiles = [each.entries() for each in top["profiles"].entries().values()] if "profiles" in top else []
    lakes = [each["lake"].unexpanded() if "lake" in each else _DEFAULT_LAKE for each in profiles]
    lines = [f"{line}/" for each in (*(lakes or [_DEFAULT_LAKE]), _OF_MERE) if (line := _inside(each))]
    return list(dict.fromkeys([*lines, *(f"{each.as_posix()}/" for each in folders)]))


def ignore(root: Path, lines: Sequence[str]) -> list[str]:
    """Add to the project's .gitignore what it does not have yet, and tell what that was. Its own lines stay."""
    file = root / FILE_NAME
    text = file.read_text(encoding="utf-8", errors="surrogateescape") if file.exists() else ""
    there = {_plain(line) for line in text.splitlines()}
    new = [line for line in lines if _plain(line) not in there]
    if new:
        between = "\n" if text and not text.endswith("\n") else ""
        file.write_text(text + between + "".join(f"{line}\n" for line in new), "utf-8", "surrogateescape")
    return new


def _inside(lake: str) -> str | None:
    """The path below the project; None: it is elsewhere, or a variable says where."""
    path = PurePosixPath(lake)
    if is_s3(lake) or path.is_absolute() or ".." in path.parts or lake.startswith("~") or "$" in lake or not path.parts:
        return None
    return str(path)


def _plain(line: str) -> str:
    return line.strip().strip("/")

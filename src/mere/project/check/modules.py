"""Imports of a Python model that will fail: modules that neither the project nor this Python has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import NamedTuple


class Missing(NamedTuple):
    module: str
    file: str  # that imports it
    line: int
    inside: bool  # whether it would be a module of the project


def missing_modules(folder: Path, file: PurePosixPath) -> Iterator[Missing]:
    """In the file and in the modules of the project that it imports."""
    left, seen = [file], {file}
    while left:
        at = left.pop()
        try:
            tree = ast.parse((folder / at).read_text(encoding="utf-8"))
        except (OSError, ValueError, SyntaxError):
            continue  # Python will say so, and `parse` does of a file under models/
        for statement in tree.body:
            # Only what is imported without a condition: one in `try` or `if` may be meant to be missing.
            for base, parts, names in _imports(statement, at):
                yield from (
                    Missing(module, at.as_posix(), statement.lineno, inside)
                    for module, inside in _missing(folder, base, parts, names)
                )
                for path in _files(folder, base, parts, names):
                    if path not in seen:
                        seen.add(path)
                        left.append(path)


_Import = tuple[PurePosixPath | None, list[str], list[str]]


def _imports(statement: ast.stmt, file: PurePosixPath) -> Iterator[_Import]:
    """Of each import the folder, if it is relative, the module's parts, and the names taken from it."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            yield None, alias.name.split("."), []
    elif isinstance(statement, ast.ImportFrom):
        parts = statement.module.split(".") if statement.module else []
        names = [alias.name for alias in statement.names if alias.name != "*"]
        if not statement.level:
            yield None, parts, names
        elif statement.level <= len(file.parents):
            yield file.parents[statement.level - 1], parts, names


def _missing(
    folder: Path, base: PurePosixPath | None, parts: list[str], names: list[str]
) -> Iterator[tuple[str, bool]]:
    root = folder / (base or "")
    if base is None and not _is_module(root / parts[0]):
        if _is_installed(parts[0]):
            return  # it goes before a folder of that name that is no package
        if not _is_there(root / parts[0]):
            yield parts[0], False
            return
    place = root
    for count, part in enumerate(parts, 1):
        place = place / part
        if not _is_there(place):
            yield ".".join(parts[:count]), True
            return
    is_plain_folder = place.is_dir() and not place.with_suffix(".py").is_file()
    if is_plain_folder and ((base is not None and not parts) or not (place / "__init__.py").is_file()):
        yield from ((".".join([*parts, name]), True) for name in names if not _is_there(place / name))


def _is_there(place: Path) -> bool:
    return place.is_dir() or place.with_name(f"{place.name}.py").is_file()


def _is_module(place: Path) -> bool:
    return (place / "__init__.py").is_file() or place.with_name(f"{place.name}.py").is_file()


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ValueError, ImportError):
        return True  # it is imported already, in a way of its own


def _files(folder: Path, base: PurePosixPath | None, parts: list[str], names: list[str]) -> Iterator[PurePosixPath]:
    place = (base or PurePosixPath()).joinpath(*parts)
    candidates = [place, *(place / name for name in names)] if parts or base else []
    for each in candidates:
        for path in (each.with_name(f"{each.name}.py") if each.name else each, each / "__init__.py"):
            if (folder / path).is_file():
                yield path

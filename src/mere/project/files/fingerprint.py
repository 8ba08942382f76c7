"""The fingerprint of a Python model's code: the same under every Python and every formatting of one program."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePosixPath

# The text of a project's file by its path relative to the project's folder; None if there is none.
Source = Callable[[PurePosixPath], str | None]

_POSITIONS = frozenset({"lineno", "col_offset", "end_lineno", "end_col_offset", "type_comment", "kind", "ctx"})


def fingerprint(statements: Sequence[ast.stmt], file: PurePosixPath, source: Source) -> str:
    """Of statements of a file, and of every module of the project that they import, directly or not."""
    modules: dict[PurePosixPath, ast.Module] = {}
    _collect(statements, file, source, modules)
    digest = hashlib.sha256()
    for statement in statements:
        _feed(digest.update, statement)
    for path in sorted(modules):
        if path != file:
            digest.update(f"\n{path}\n".encode())
            _feed(digest.update, modules[path])
    return digest.hexdigest()


def _collect(
    statements: Iterable[ast.stmt], file: PurePosixPath, source: Source, modules: dict[PurePosixPath, ast.Module]
) -> None:
    for path in _imported(statements, file):
        if path in modules:
            continue
        text = source(path)
        if text is None:
            continue
        try:
            modules[path] = ast.parse(text, str(path))
        except SyntaxError:
            continue  # Python will say so when it imports it; a file under models/ is reported on its own
        _collect(modules[path].body, path, source, modules)


def _imported(statements: Iterable[ast.stmt], file: PurePosixPath) -> Iterator[PurePosixPath]:
    """Where the imported modules would be, if they were the project's own."""
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from _places(PurePosixPath(), alias.name.split("."))
            elif isinstance(node, ast.ImportFrom):
                base = PurePosixPath()
                if node.level:
                    parents = file.parents
                    if node.level > len(parents):
                        continue
                    base = parents[node.level - 1]
                parts = node.module.split(".") if node.module else []
                yield from _places(base, parts)
                for alias in node.names:
                    yield from _places(base, [*parts, alias.name])


def _places(base: PurePosixPath, parts: list[str]) -> Iterator[PurePosixPath]:
    """A module's file and those of the packages around it, which are run on the way to it."""
    for count in range(1, len(parts) + 1):
        place = base.joinpath(*parts[:count])
        yield place.with_name(f"{place.name}.py")
        yield place / "__init__.py"


def _feed(update: Callable[[bytes], None], node: object) -> None:
    """Names and fields of the syntax tree, written out by hand: `ast.dump` differs between versions of Python."""
    if isinstance(node, ast.AST):
        update(f"({type(node).__name__}".encode())
        for name in sorted(set(node._fields) - _POSITIONS):
            value = getattr(node, name, None)
            if name == "body" and isinstance(value, list):
                value = _without_docstring(node, value)
            if value is None and not isinstance(node, ast.Constant):
                continue
            if value == []:
                continue
            update(f" {name}=".encode())
            _feed(update, value)
        update(b")")
    elif isinstance(node, list):
        for each in node:
            update(b"[")
            _feed(update, each)
        update(b"]")
    else:
        update(f"{type(node).__name__}:{node!r}".encode())


def _without_docstring(node: ast.AST, body: list[ast.stmt]) -> list[ast.stmt]:
    if not isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or not body:
        return body
    match body[0]:
        case ast.Expr(value=ast.Constant(value=str())):
            return body[1:]
    return body

"""Python literals as entries, so that a decorator's arguments are read by the same code as a header's YAML."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import yaml

from mere.entries import Entry
from mere.errors import ConfigError


def mapping(keywords: Iterable[ast.keyword], path: Path, line: int) -> Entry:
    """The keyword arguments of a call."""
    pairs = []
    for keyword in keywords:
        if keyword.arg is None:
            raise not_literal(path, keyword.value, "**")
        mark = _mark(keyword.value)
        pairs.append((yaml.ScalarNode(_TEXT, keyword.arg, mark, mark), _node(keyword.value, path, keyword.arg)))
    mark = yaml.Mark("", 0, line - 1, 0, None, 0)
    return Entry(path, "", yaml.MappingNode(_MAP, pairs, mark, mark))


def text(node: ast.expr, path: Path, what: str) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise not_literal(path, node, what)


def not_literal(path: Path, node: ast.expr, what: str) -> ConfigError:
    return ConfigError(
        f"`{what}` must be written out: a plan reads the file without running it, and cannot know what"
        f" `{ast.unparse(node)}` is",
        remedy="Write a text, a number, True, False, None, or a list or dict of them.",
        file=path.as_posix(),
        line=node.lineno,
        column=node.col_offset + 1,
    )


_TEXT, _MAP, _LIST = (f"tag:yaml.org,2002:{name}" for name in ("str", "map", "seq"))
_SCALARS = {str: "str", bool: "bool", int: "int", float: "float", type(None): "null"}


def _node(node: ast.expr, path: Path, what: str) -> yaml.Node:
    mark = _mark(node)
    match node:
        case ast.List() | ast.Tuple() | ast.Set():
            return yaml.SequenceNode(_LIST, [_node(each, path, what) for each in node.elts], mark, mark)
        case ast.Dict():
            pairs = []
            for key, value in zip(node.keys, node.values, strict=True):
                if key is None:
                    raise not_literal(path, value, what)
                pairs.append((_node(key, path, what), _node(value, path, what)))
            return yaml.MappingNode(_MAP, pairs, mark, mark)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return _scalar(-number, mark)
        case ast.Constant() if type(node.value) in _SCALARS:
            return _scalar(node.value, mark)
    raise not_literal(path, node, what)


def _scalar(value: object, mark: yaml.Mark) -> yaml.ScalarNode:
    text = {True: "true", False: "false", None: "null"}[value] if isinstance(value, bool | None) else str(value)
    return yaml.ScalarNode(f"tag:yaml.org,2002:{_SCALARS[type(value)]}", text, mark, mark)


def _mark(node: ast.expr) -> yaml.Mark:
    return yaml.Mark("", 0, node.lineno - 1, node.col_offset, None, 0)

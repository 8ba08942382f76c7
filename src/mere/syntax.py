"""What is wrong with a file that is not valid YAML or JSON: where it is, what was found there, and how to fix it.

Words of the file are never shown, for any of them may be a secret; a single punctuation character may be.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from mere.errors import ConfigError

if TYPE_CHECKING:
    import yaml

_QUOTE = "Put the whole value in quotes: 'like this'."
_INDENT = "Indent it by spaces, exactly as far as the lines that it belongs to."


class _Words(NamedTuple):
    """What PyYAML says (its context and its problem, as a pattern), and what to say instead. The place is that of the
    problem, or where what is not ended began."""

    pattern: str
    message: str
    remedy: str
    where_it_began: bool = False


_CLOSING = {"sequence": ("[", "]"), "mapping": ("{", "}")}
_YAML = (
    _Words(
        "quoted scalar: .*(end of stream|document separator)",
        "a quote is opened here and never closed",
        "Close it with the same quote; inside of '…' a quote is written twice: 'it''s'.",
        True,
    ),
    _Words(
        "unknown escape character",
        "a backslash in double quotes is followed by a character that cannot follow it",
        r"Put the value in single quotes, or write \\ for the backslash.",
    ),
    _Words(
        "expected escape sequence",
        "a code after a backslash in double quotes is not complete",
        r"Put the value in single quotes, or write \\ for the backslash.",
    ),
    _Words(r"character '\\t'", "there is a tab where YAML takes only spaces", _INDENT),
    _Words("character '(.)' that cannot start", "a value cannot begin with `{0}`", _QUOTE),
    _Words(
        "mapping values are not allowed",
        "there is a `:` where no key is allowed",
        "Put a value that has a colon in quotes; or, if it ends a key, give the key a line of its own, indented as far"
        " as the keys beside it.",
    ),
    _Words(
        "could not find expected ':'",
        "a line is neither `key: value` nor an item of a list",
        "Write a `:` and a space after the key; a text of several lines goes in quotes.",
        True,
    ),
    _Words(
        "block (mapping|collection): .*found '<scalar>'", "there is more after the end of a value in quotes", _QUOTE
    ),
    _Words(
        "block mapping: .*found '(-|<block entry>)'",
        "an item of a list is among keys",
        "Indent the items below the key that they belong to, or remove the `-`.",
    ),
    _Words("block (mapping|collection): .*found '<block", "this line is not indented as those beside it", _INDENT),
    _Words(
        "block collection: .*found '\\?'", "a key is among the items of a list", "Put `- ` before it, or indent it."
    ),
    _Words(
        "block (mapping|collection): .*found '([^<'])'", "there is a `{1}` that belongs to nothing before it", _QUOTE
    ),
    _Words("alias", "a `*` at the beginning of a value stands for something named with `&` before", _QUOTE),
    _Words(
        "anchor|second occurrence", "a `&` at the beginning of a value gives it a name, which is wrong here", _QUOTE
    ),
    _Words("(?<!verbatim )tag", "a `!` at the beginning of a value says its type, which is wrong here", _QUOTE, True),
    _Words(
        "block scalar",
        "after `|` or `>` the text begins in the next line",
        "Break the line, or put the value in quotes.",
    ),
    _Words("single document", "`---` begins a second document, and a file is one", "Remove the line."),
    _Words(
        "node content, but found '(.)'",
        "there is a `{0}` where a value should be",
        "Write the value, or put it in quotes if it is one.",
    ),
    _Words("directive|YAML document", "a line that begins with `%` or `---` is not what YAML asks for", "Remove it."),
)
_JSON = {
    "Expecting ',' delimiter": ("a `,` is missing before this", "Separate values by commas."),
    "Expecting ':' delimiter": ("a `:` is missing before this", 'Write "name": "value".'),
    "Expecting property name enclosed in double quotes": (
        "there should be a name in double quotes here",
        "Put names in double quotes, and no comma after the last one.",
    ),
    "Illegal trailing comma before end of object": ("there is a comma after the last value", "Remove it."),
    "Illegal trailing comma before end of array": ("there is a comma after the last value", "Remove it."),
    "Expecting value": ("there should be a value here", "Write a text in quotes, a number, a list or an object."),
    "Unterminated string starting at": ("a quote is opened here and never closed", "Close it with a double quote."),
    "Invalid control character at": ("a text has a line break or a control character", r"Write \n for it."),
    "Extra data": ("there is more after the end of the value", "A file is one value: remove the rest."),
}


def not_yaml(error: yaml.YAMLError, text: str, file: str, first_line: int = 1, margin: int = 0) -> ConfigError:
    """`first_line` and `margin`: the line in which the text begins, and the columns before each of its lines."""
    from yaml import MarkedYAMLError
    from yaml.reader import ReaderError

    if isinstance(error, ReaderError):
        before = text[: error.position]
        line, column = first_line + before.count("\n"), margin + error.position - before.rfind("\n")
        message = f"not valid YAML: there is a control character (number {error.character})"
        return ConfigError(message, remedy="Remove it.", file=file, line=line, column=column)
    if not isinstance(error, MarkedYAMLError):
        return ConfigError("not valid YAML", remedy="Look at its quotes, brackets, colons and indentation.", file=file)
    message, remedy, began = _of_brackets(error) or _in_words(f"{error.context}: {error.problem}")
    mark = (error.context_mark if began else None) or error.problem_mark or error.context_mark
    line, column = (first_line + mark.line, 1 + margin + mark.column) if mark else (first_line, None)
    return ConfigError(f"not valid YAML: {message}", remedy=remedy, file=file, line=line, column=column)


def _of_brackets(error: yaml.MarkedYAMLError) -> tuple[str, str, bool] | None:
    kind = re.search(r"flow (sequence|mapping)", error.context or "")
    found = re.search(r"got '(.*)'", error.problem or "")
    if not kind or not found or error.context_mark is None or error.problem_mark is None:
        return None
    opened, closed = _CLOSING[kind[1]]
    close = f"Close it with `{closed}`."
    if found[1] == "<stream end>" or error.problem_mark.line > error.context_mark.line:
        return f"a `{opened}` is opened here and not closed before the next key", close, True
    if found[1] in ("]", "}"):
        return f"there is a `{found[1]}`, and what is open is a `{opened}`", close, False
    remedy = "Separate what is in brackets by commas, and put a value that has a colon, a comma or a bracket in quotes."
    return f"a `,` or a `{closed}` is missing before this", remedy, False


def _in_words(said: str) -> tuple[str, str, bool]:
    for words in _YAML:
        if found := re.search(words.pattern, said, re.DOTALL):
            return words.message.format(*found.groups()), words.remedy, words.where_it_began
    return "it cannot be read from here on", "Look at the quotes, brackets, colons and indentation before it.", False


def not_json(error: json.JSONDecodeError, file: str, otherwise: str) -> ConfigError:
    """`otherwise`: what can be done instead of mending it."""
    message, remedy = _JSON.get(
        error.msg, ("it cannot be read from here on", "Look at the quotes and brackets before it.")
    )
    remedy = f"{remedy} Or {otherwise}"
    return ConfigError(f"not valid JSON: {message}", remedy=remedy, file=file, line=error.lineno, column=error.colno)


def not_utf8(error: UnicodeDecodeError, file: str) -> ConfigError:
    before = error.object[: error.start]
    line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
    return ConfigError("not UTF-8 text", remedy="Save it as UTF-8.", file=file, line=line, column=column)

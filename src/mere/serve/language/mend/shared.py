"""Long texts that many rows share. A function over them makes or reads one for each row, thousands at once."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from mere.serve.engine import functions
from mere.serve.language.mend.tree import call, macro, number, text
from mere.serve.parse.words import words

# Functions whose work or result is as long as the texts that they are given. Those that make longer ones ask by
# themselves how long these would be.
READING = words("""
    lower upper initcap reverse left right ltrim rtrim btrim trim substr substring split_part strpos translate md5
    replace string_to_array regexp_split_to_array regexp_replace regexp_match regexp_count regexp_like regexp_substr
    quote_literal quote_ident quote_nullable encode decode
    json_array_length jsonb_array_length json_typeof jsonb_typeof json_extract_path json_extract_path_text
    jsonb_extract_path jsonb_extract_path_text
""")
_NODES = (
    exp.Overlay, exp.RegexpILike, exp.RegexpLike, exp.SimilarTo, exp.StrPosition, exp.Substring, exp.Trim,
    exp.JSONExtract, exp.JSONExtractScalar, exp.JSONBExtract, exp.JSONBExtractScalar, exp.JSONBContains,
)  # fmt: skip
_WHOLE = (exp.Column, exp.Dot, exp.Parameter, exp.Window, exp.Filter, exp.Subquery)
_AGGREGATES = words("""
    min max string_agg any_value mode first last arbitrary json_group_array json_group_object to_json array_agg list
    quantile_disc count sum avg bool_and bool_or grouping
""")
_LONG = 1000  # characters of a literal
_ASKED = "asks for room"


def reads(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return not node.meta.get("mended") and _name(node) in READING
    return isinstance(node, _NODES)


def _name(node: exp.Anonymous) -> str:
    return str(getattr(node.this, "name", node.this)).lower()


def with_room(made: exp.Expr) -> exp.Expr:
    """The call, if there is room for what it reads in all rows that come at once."""
    found = {each.sql(): each for each in _parts(made)}
    known = sum(len(each.name) for each in found.values() if isinstance(each, exp.Literal))
    if not any(_is_of_rows(each) for each in found.values()):
        return made  # it is computed once
    size: exp.Expr = number(known)
    for each in found.values():
        if not isinstance(each, exp.Literal):
            size = exp.Add(this=size, expression=call("coalesce", macro("bytes", each), number(0)))
    condition = macro("load", size)
    error = call("error", text(functions.TOO_MUCH))
    asking = exp.paren(exp.Case().when(condition, made.copy()).else_(error), copy=False)
    asking.meta[_ASKED] = True
    return asking


def _parts(node: exp.Expr) -> Iterator[exp.Expr]:
    """Columns and constants of which it is made: in what has asked already, those have been counted."""
    for each in node.iter_expressions():
        if each.meta.get(_ASKED) or isinstance(each, exp.DataType) or _is_error(each):
            continue
        if isinstance(each, exp.Literal):
            if len(each.name) > _LONG:
                yield each
        elif isinstance(each, _WHOLE) or (isinstance(each, exp.Anonymous) and _is_whole(each)):
            yield each
        else:
            yield from _parts(each)


def _is_error(node: exp.Expr) -> bool:
    """It makes no text. To count one would raise it, whatever it stands behind."""
    return isinstance(node, exp.Anonymous) and _name(node) == "error"


def _is_whole(call: exp.Anonymous) -> bool:
    """An aggregate, or one that is computed once."""
    return _name(call) in _AGGREGATES or not _is_of_rows(call)


def _is_of_rows(node: exp.Expr) -> bool:
    """Whether it may differ from row to row."""
    return node.find(exp.Column, exp.Dot, exp.Window, exp.Subquery) is not None

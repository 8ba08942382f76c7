"""The rules of `mere check`, by the names that `off:` knows."""

from __future__ import annotations

from enum import StrEnum


class Rule(StrEnum):
    PARSE = "parse"
    UNKNOWN_TABLE = "unknown-table"
    UNKNOWN_COLUMN = "unknown-column"
    CHANGING_VALUE = "changing-value"
    SELECT_STAR = "select-star"
    MISSING_KEY = "missing-key"
    MISSING_AUDIT = "missing-audit"
    UNUSED_MACRO = "unused-macro"
    UNUSED_INPUT = "unused-input"


# What is about a model: the rest cannot be switched off by one.
SWITCHABLE = tuple(rule for rule in Rule if rule not in (Rule.PARSE, Rule.UNUSED_MACRO))
# The others are warnings.
ERRORS = frozenset({Rule.PARSE, Rule.UNKNOWN_COLUMN, Rule.CHANGING_VALUE})

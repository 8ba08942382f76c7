"""The rules of `mere check`, by the names that `off:` knows."""

from __future__ import annotations

from enum import StrEnum


class Rule(StrEnum):
    PARSE = "parse"
    UNKNOWN_TABLE = "unknown-table"
    UNKNOWN_COLUMN = "unknown-column"
    UNKNOWN_MODULE = "unknown-module"
    CHANGING_VALUE = "changing-value"
    ZONE_UNASKED = "zone-unasked"
    SELECT_STAR = "select-star"
    MISSING_KEY = "missing-key"
    MISSING_AUDIT = "missing-audit"
    UNUSED_MACRO = "unused-macro"
    UNUSED_INPUT = "unused-input"
    NOT_IN_TRINO = "not-in-trino"


# Rules about one model: the others cannot be switched off by one.
SWITCHABLE = tuple(rule for rule in Rule if rule not in (Rule.PARSE, Rule.UNUSED_MACRO))
# What is certain to fail, or to be wrong: a run is refused. All others are warnings.
ERRORS = frozenset({Rule.PARSE, Rule.UNKNOWN_COLUMN, Rule.UNKNOWN_MODULE, Rule.CHANGING_VALUE})

"""Names as the catalogs write them."""

from __future__ import annotations

from mere.serve import builtin

OWNER_NAME = "mere"  # of everything in the lake, and of the catalogs
TEMPORARY = "pg_temp_1"  # the schema of a session's own views
_UNRESERVED = "U"


def quoted(name: str) -> str:
    """As quote_ident does it: only where it is needed."""
    plain = name.isascii() and name.isidentifier() and name.lower() == name
    is_word = builtin.keywords().get(name, _UNRESERVED) != _UNRESERVED
    return name if plain and not is_word else '"' + name.replace('"', '""') + '"'

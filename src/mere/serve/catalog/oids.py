"""Numbers for names: a name has the same one at every commit, in every process."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

FIRST = 16384  # below are Postgres's own
_LAST = 2**31 - 1  # clients keep them in signed numbers

PG_CATALOG, PUBLIC, OWNER = 11, 2200, 10
CLASS, NAMESPACE, CONSTRAINT = 1259, 2615, 2606  # the catalogs, as what is about an object names them
BTREE, HEAP = 403, 2  # access methods


def oid_of(*name: str) -> int:
    """Of a schema, of a table by schema and name, of what belongs to it by one more word."""
    digest = blake2b("\0".join(name).encode(), digest_size=8).digest()
    return FIRST + int.from_bytes(digest) % (_LAST - FIRST)


def oids_of(names: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], int]:
    """Of all at once: where two names would share a number, the later one by the alphabet takes the next free one."""
    found: dict[tuple[str, ...], int] = {}
    taken: set[int] = set()
    for name in sorted(names):
        oid = oid_of(*name)
        while oid in taken:
            oid = FIRST + (oid - FIRST + 1) % (_LAST - FIRST)
        taken.add(oid)
        found[name] = oid
    return found

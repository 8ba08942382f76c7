"""The folders of tables and views in the warehouse: each table has its own, whatever its name is on other refs."""

from __future__ import annotations

import posixpath
import re
import secrets

from mere.config import is_s3
from mere.errors import LakeUnreadable
from mere.lake.storage import room
from mere.lake.storage.port import canonical, local_path
from mere.names import TableName

_TOKEN = re.compile(r"-[0-9a-f]{32}")
_IN_A_TABLE = ("metadata", "data")


def fresh(warehouse: str, table: TableName) -> str:
    """One that no other table has, as a URI: engines that speak only of URIs read it, too."""
    # Engines read ? # % in a path as something else.
    names = [re.sub(r"[^\w-]", "_", part) for part in (*table.namespace.split("."), table.name)]
    return f"{uri(posixpath.join(warehouse, *names))}-{secrets.token_hex(16)}"


def uri(location: str) -> str:
    return location if is_s3(location) else f"file://{local_path(location)}"


def for_engines(warehouse: str) -> str:
    """A warehouse as engines are told of it: by a URI, for there are some that read no path without one. Those that
    take a path apart are not given one with letters that end it."""
    return warehouse if set(warehouse) & set("?#%") else uri(warehouse)


def is_fresh(location: str, warehouse: str, table: TableName) -> bool:
    """Whether `fresh` has given it to this table: then nobody else has it."""
    ours = fresh(warehouse, table)
    end = _TOKEN.fullmatch(location[-33:])
    return end is not None and canonical(location)[:-33] == canonical(ours)[:-33]


def is_inside(location: str, folder: str) -> bool:
    """Whether a file or folder is in there, by its name alone, which must not lead out again."""
    path, around = canonical(location), canonical(folder).rstrip("/") + "/"
    return path.startswith(around) and not {"", ".", ".."} & set(path.removeprefix(around).rstrip("/").split("/"))


def make(location: str) -> None:
    """Some engines write files only into folders that are there."""
    if is_s3(location):
        return
    folder = local_path(location)
    try:
        for name in _IN_A_TABLE:
            (folder / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = room.describe(folder) if room.is_lacking(error) else f"{error.strerror}."
        raise LakeUnreadable(f"{folder} cannot be made: {why} Nothing was changed.") from error

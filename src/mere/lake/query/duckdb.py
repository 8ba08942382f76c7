"""Opens a DuckDB that reads the lake."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mere.config import S3Settings
from mere.errors import MereError, QueryError
from mere.installing import pip_install
from mere.lake.query import errors, spill
from mere.lake.storage.port import Storage, canonical
from mere.lake.storage.s3 import duckdb_secret
from mere.sql.spelling.standard import literal

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Iceberg's manifests are Avro files: its extension does not load before that of Avro.
_EXTENSIONS = ("avro", "iceberg")

# The files whose signatures DuckDB has checked in this process: for that it reads all of them, 0.15 s of CPU.
_checked: set[tuple[Path, int, int]] = set()


@dataclass(frozen=True)
class Limits:
    """What a query may use; None leaves it to DuckDB: four fifths of the memory, all cores."""

    memory: str | None = None  # "2GB"
    threads: int | None = None


@contextmanager
def opened(storage: Storage | None = None, limits: Limits | None = None) -> Iterator[DuckDBPyConnection]:
    """One that reads the tables of a storage, for as long as it is needed."""
    with closing(connect(limits)) as connection:
        equip(connection, storage)
        yield connection


def connect(limits: Limits | None = None) -> DuckDBPyConnection:
    """A DuckDB of its own, in memory, that fetches nothing from the network."""
    import duckdb

    limits = limits or Limits()
    trusted = bool(_checked) and all(_identity(_extension(name)) in _checked for name in _EXTENSIONS)
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_unsigned_extensions": trusted,
        # A table name must never mean a variable of whoever calls.
        "python_enable_replacements": False,
        "errors_as_json": True,
        "temp_directory": spill.place(),
    }
    if limits.memory:
        config["memory_limit"] = limits.memory
    if limits.threads:
        config["threads"] = limits.threads
    try:
        connection = duckdb.connect(config=config)
    except duckdb.Error as error:
        raise QueryError(errors.details(error).message) from error
    if trusted:
        _load(connection, *_EXTENSIONS)
        connection.execute("SET allow_unsigned_extensions = false")  # from now on it cannot be switched on again
    connection.execute("SET TimeZone = 'UTC'")
    # DuckDB 1.5.5 moves the filter that a join gives below an ORDER BY … LIMIT, which then lets other rows through.
    connection.execute("SET disabled_optimizers = 'join_filter_pushdown'")
    return connection


def equip(connection: DuckDBPyConnection, storage: Storage | None = None) -> None:
    """What it needs to read Iceberg tables, wherever their files are."""
    _load(connection, *_EXTENSIONS)
    if storage is not None and storage.s3 is not None:
        _reach_s3(connection, storage.s3)


def confine(connection: DuckDBPyConnection, folders: Iterable[str]) -> None:
    """From now on it reads files of these folders alone. Extensions must have been loaded before."""
    allowed = ", ".join(literal(canonical(folder).rstrip("/") + "/") for folder in dict.fromkeys(folders))
    connection.execute(f"SET allowed_directories = [{allowed}]")
    connection.execute("SET enable_external_access = false")


def _load(connection: DuckDBPyConnection, *names: str) -> None:
    for name in names:
        path = _extension(name)
        connection.execute(f"LOAD {literal(str(path))}")
        _checked.add(_identity(path))


def _reach_s3(connection: DuckDBPyConnection, s3: S3Settings) -> None:
    """Give DuckDB the keys. They stay in its memory, where queries see them redacted."""
    import duckdb

    _load(connection, "httpfs")
    options = ", ".join(f"{name} {literal(value)}" for name, value in duckdb_secret(s3).items())
    try:
        connection.execute(f"CREATE SECRET s3 (TYPE s3, PROVIDER config, {options})")
    except duckdb.Error:
        # Its error could quote the statement, and so the keys.
        raise QueryError("DuckDB rejects the settings of S3.", remedy="Check `s3` in mere.yaml.") from None


def _identity(path: Path) -> tuple[Path, int, int]:
    found = path.stat()
    return path, found.st_ino, found.st_mtime_ns


def _extension(name: str) -> Path:
    """Extensions come as packages with the right version of DuckDB: nothing is ever fetched while a query runs."""
    import duckdb

    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    for folder in spec.submodule_search_locations or [] if spec else []:
        path = Path(folder, "extensions", f"v{duckdb.__version__}", f"{name}.duckdb_extension")
        if path.is_file():
            return path
    raise MereError(
        f"DuckDB's extension {name} for version {duckdb.__version__} is not installed.",
        remedy=f"Install it: {pip_install(f'duckdb-extension-{name}=={duckdb.__version__}')}",
    )

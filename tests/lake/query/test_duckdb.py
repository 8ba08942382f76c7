"""The extensions of DuckDB: signed ones only, and each is checked once a process."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from mere.lake.query import connect
from mere.lake.query import duckdb as module
from mere.lake.query.duckdb import equip

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def allows_unsigned(connection: DuckDBPyConnection) -> object:
    return connection.execute("SELECT current_setting('allow_unsigned_extensions')").fetchall()[0][0]


def loaded(connection: DuckDBPyConnection) -> set[str]:
    found = connection.execute("SELECT extension_name FROM duckdb_extensions() WHERE loaded").fetchall()
    return {name for (name,) in found} & {"avro", "iceberg", "httpfs"}


def test_the_second_connection_of_a_process_has_what_the_first_one_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_checked", set())
    with closing(connect()) as first, closing(connect()) as second:
        assert loaded(first) == set()
        equip(first)
        assert loaded(first) == {"avro", "iceberg"}
        assert loaded(second) == set()
    with closing(connect()) as third:
        assert loaded(third) == {"avro", "iceberg"}


def test_no_connection_that_is_handed_out_takes_what_is_not_signed() -> None:
    for _ in range(2):
        with closing(connect()) as connection:
            assert allows_unsigned(connection) is False
            with pytest.raises(duckdb.Error, match="Cannot change allow_unsigned_extensions"):
                connection.execute("SET allow_unsigned_extensions = true")
            equip(connection)


def test_a_file_that_changed_since_it_was_checked_is_checked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = {name: tmp_path / f"{name}.duckdb_extension" for name in ("avro", "iceberg")}
    for name, copy in copies.items():
        shutil.copyfile(module._extension(name), copy)
    monkeypatch.setattr(module, "_extension", copies.__getitem__)
    with closing(connect()) as connection:
        equip(connection)
    forged = bytearray(copies["avro"].read_bytes())
    forged[-1] ^= 1  # the signature is at its end
    copies["avro"].unlink()  # this process runs what was in it
    copies["avro"].write_bytes(forged)
    with closing(connect()) as connection:
        assert loaded(connection) == set()
        with pytest.raises(duckdb.IOException, match="signature is either missing or invalid"):
            equip(connection)

"""Writes files completely or not at all, and never over a file that somebody may want to keep."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from mere.errors import ConfigError


@dataclass(frozen=True)
class File:
    name: str  # below the folder
    write: Callable[[BinaryIO], int]  # its content; returns the number of rows


class Dataset(Protocol):
    @property
    def count(self) -> int:
        """How many files there will be."""

    def files(self) -> Iterator[File]: ...


class State(StrEnum):
    WRITTEN = "written"
    REPLACED = "replaced"
    UNCHANGED = "unchanged"  # it was there, with the same bytes


@dataclass(frozen=True)
class Written:
    name: str
    rows: int
    size: int
    state: State


def write(dataset: Dataset, folder: Path, *, force: bool = False) -> Iterator[Written]:
    """One file after another; a file that is there and differs stays as it is, unless `force` says otherwise."""
    for file in dataset.files():
        try:
            yield _written(file, folder / file.name, force)
        except OSError as error:
            raise ConfigError(
                f"{folder / file.name} cannot be written: {error.strerror or error}.",
                remedy="Files finished before it are kept. Choose another folder, or free some space.",
            ) from error


def _written(file: File, target: Path, force: bool) -> Written:
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as stream:
            rows = file.write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        size = unfinished.stat().st_size
        state = State.REPLACED if target.exists() else State.WRITTEN
        if target.is_file() and filecmp.cmp(unfinished, target, shallow=False):
            return Written(file.name, rows, size, State.UNCHANGED)
        if state is State.REPLACED and not force:
            raise ConfigError(
                f"{target} already exists and differs from what would be written. It was not changed.",
                remedy="Choose another folder, or overwrite it with --force.",
            )
        unfinished.replace(target)
        return Written(file.name, rows, size, state)
    finally:
        unfinished.unlink(missing_ok=True)


def csv_lines(columns: Mapping[str, Any]) -> bytes:
    """Arrow arrays as lines of CSV, without a header. A value with a comma or a quote in it is refused."""
    import pyarrow as pa
    from pyarrow import csv

    sink = pa.BufferOutputStream()
    options = csv.WriteOptions(include_header=False, quoting_style="none")
    csv.write_csv(pa.table(dict(columns)), sink, options)
    return bytes(sink.getvalue())

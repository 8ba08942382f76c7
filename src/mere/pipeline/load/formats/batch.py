"""Files that are read together, and the columns on which they agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mere.errors import RunFailed
from mere.names import AT, RULES
from mere.pipeline.load.formats.columns import Agreement, Needs, Shape, to_json
from mere.pipeline.load.formats.elsewhere import Elsewhere
from mere.pipeline.load.formats.origin import PORTION, located, paths_for_spark, value_of
from mere.pipeline.load.formats.text import LINE, RAW, WHY
from mere.pipeline.write.contract import typed
from mere.project.model import Model
from mere.sources.pattern import TIME_FIELDS
from mere.sources.source import Files, Portion, Source, Text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

Look = TypeVar("Look")
_AT_ONCE = 16  # files that are looked at side by side
# What a row of the quarantine has of its own.
_OF_QUARANTINE = (RULES, WHY, LINE, RAW, AT)
_OF_ICEBERG = ("_file", "_pos", "_deleted", "_spec_id", "_partition")


@dataclass(frozen=True)
class Batch:
    model: Model
    source: Source
    files: Files
    portions: Sequence[Portion]
    paths: Mapping[str, Path]
    spark: SparkSession
    elsewhere: Elsewhere = field(default_factory=Elsewhere)  # where Spark reads the files, if not at these paths
    columns: dict[str, str] = field(default_factory=dict)  # of each portion, as it had them

    @property
    def text(self) -> Text:
        return self.files.text

    @property
    def fields(self) -> dict[str, str]:
        """Of the pattern, that become columns, and their types."""
        given = (name for each in self.portions for name in each.values)
        return {name: self._type_of(name) for name in given} if self.source.path_columns else {}

    def _type_of(self, field: str) -> str:
        declared = self.source.columns.get(field)
        usual = "string" if field not in TIME_FIELDS else "date" if field == "date" else "int"
        return (declared and declared.type) or usual

    def place(self, portion: Portion) -> str:
        """For messages."""
        return f"{self.model.file}: {portion.name}"

    def look(self, at: Callable[[Portion, Path], Look | None]) -> dict[str, Look]:
        """At each file; None: it is empty, which is an error unless it was said that it may be."""
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="mere-look") as pool:
            found = pool.map(lambda each: self._looked(each, at), self.portions)
            return {each.name: look for each, look in zip(self.portions, found, strict=True) if look is not None}

    def _looked(self, portion: Portion, at: Callable[[Portion, Path], Look | None]) -> Look | None:
        path = self.paths[portion.name]
        if path.name.startswith(("_", ".")) or ":" in path.name:
            raise RunFailed(
                f"{self.place(portion)}: Spark reads no file whose name begins with _ or a dot, or has a colon in it.",
                remedy="Rename it.",
            )
        look = at(portion, path) if path.stat().st_size else None
        if look is None and not self.files.skip_empty:
            raise RunFailed(
                f"{self.place(portion)} is empty. Nothing was loaded.",
                remedy="To pass over such files: `empty_files: skip`.",
            )
        return look

    def agree(self, agreement: Agreement, shapes: Mapping[str, Shape]) -> dict[str, dict[str, int]]:
        """Of each portion, which of its columns becomes which of the table."""
        known: dict[Shape, dict[str, int]] = {}
        for name, shape in shapes.items():
            self.columns[name] = to_json(shape)
            if shape not in known:
                known[shape] = agreement.take(name, shape)
        return {name: known[shape] for name, shape in shapes.items()}

    @property
    def read(self) -> DataFrameReader:
        return self.elsewhere.reader(self.spark)

    @property
    def addresses(self) -> dict[str, str]:
        """Where Spark reads each file."""
        return {name: self.elsewhere.addresses.get(name, str(path)) for name, path in self.paths.items()}

    def paths_of(self, names: Iterable[str]) -> list[str]:
        addresses = self.addresses
        return paths_for_spark(addresses[name] for name in names)

    def located(self, frame: DataFrame, names: Iterable[str]) -> DataFrame:
        wanted = set(names)
        portions = [each for each in self.portions if each.name in wanted]
        return located(frame, portions, self.addresses, self.fields, self.spark)

    @property
    def kept(self) -> dict[str, str]:
        """The columns of a row that its file gives it, by name, in SQL."""
        trace = self.source.trace.file
        return {**{name: value_of(name) for name in self.fields}, **({trace: PORTION} if trace else {})}


def agreement_of(
    model: Model, table: Sequence[tuple[str, str]], fields: Iterable[str], needs: Needs, text: bool, spark: SparkSession
) -> Agreement:
    """`table`: names and types of the columns that stand there; `fields`: of the pattern, that become columns."""
    source = model.body
    assert isinstance(source, Source)
    reserved = {name.casefold(): "what mere writes into the table" for name in source.trace.names}
    reserved |= {name.casefold(): "a column of the quarantine itself" for name in _OF_QUARANTINE}
    reserved |= dict.fromkeys(_OF_ICEBERG, "what Iceberg keeps for itself")
    reserved |= {name.casefold(): "a field of the path" for name in fields}
    columns = {name: each for name, each in source.columns.items() if name.casefold() not in reserved}
    declared = {f"declared {name}": each.type for name, each in columns.items() if each.type is not None}
    standing = {f"standing {name}": each for name, each in table}
    types = {each.name: each for each in typed({**declared, **standing}, spark)} if declared or standing else {}
    return Agreement(
        model,
        replace(source, columns=columns),
        {name: types[f"declared {name}"].type for name in columns if f"declared {name}" in types},
        [(name, types[f"standing {name}"].type) for name, _ in table],
        reserved,
        needs,
        text,
    )

"""The quarantine of a source: rows that could not be read or that break a rule, with their origin and the reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mere.lake.iceberg.metadata import Metadata
from mere.lake.lake import Lake
from mere.names import AT, RULES, RUN
from mere.pipeline.load.records import LINE, RAW, WHY
from mere.pipeline.write.companions import declared, filled, standing
from mere.pipeline.write.query import Workshop, literal
from mere.pipeline.write.table import expr, prepare
from mere.project.model import Model
from mere.sources.source import Source
from mere.sql.spelling.spark import name_of, quoted, text_literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ABOUT = {
    RULES: "the rules that the row breaks",
    WHY: "what is wrong with it, in words",
    LINE: "the line in the file, where that can be told",
    RAW: "the row as it came",
    RUN: "the run that put it aside",
    AT: "the time of that run",
}


@dataclass
class Aside:
    model: Model
    source: Source
    lake: Lake
    branch: str
    run: str
    shop: Workshop
    touched: bool = False

    def make(self, frame: DataFrame) -> None:
        """It is there from the first load on, so that models can read it."""
        if self._standing() is None:
            self.touched = True
            prepare(self._declared, self._described(frame), self.shop.spark, None, whole=True)

    def add(self, bad: DataFrame) -> None:
        rows = self._described(bad)
        standing = self._standing()
        if standing:
            rows = filled(rows, self.shop.spark.table(name_of(self.model.name.quarantine)).schema)
        rows = prepare(self._declared, rows, self.shop.spark, standing, whole=False)
        rows.writeTo(name_of(self.model.name.quarantine)).option("fanout-enabled", "true").append()
        self.touched = True

    def without_known(self, bad: DataFrame) -> DataFrame:
        """Of records that are read again and again: those that are not there yet."""
        standing = self._standing()
        if standing is None or not standing.rows:
            return bad
        known = self.shop.spark.table(name_of(self.model.name.quarantine)).selectExpr(f"{RAW} AS mere_known").distinct()
        return bad.join(known, expr(f"{quoted(RAW)} = mere_known"), "left_anti")

    def remove(self, names: Iterable[str]) -> None:
        """The rows of files that are loaded again."""
        if self._standing() is None:
            return
        file = quoted(str(self.source.trace.file))
        self._delete(f"{file} IN ({', '.join(map(text_literal, names))})")

    def clear(self) -> None:
        standing = self._standing()
        if standing is not None and standing.rows:
            self._delete("true")

    def _delete(self, condition: str) -> None:
        self.touched = True
        self.shop.spark.sql(f"DELETE FROM {name_of(self.model.name.quarantine)} WHERE {condition}")

    def _described(self, bad: DataFrame) -> DataFrame:
        """What mere adds to a row of the table is not of the row."""
        trace = self.source.trace
        added = {name.casefold() for name in (trace.loaded_at, trace.run, trace.raw) if name} - {RAW}
        columns = [quoted(name) for name in bad.columns if name.casefold() not in added]
        about = [f"{text_literal(self.run)} AS {RUN}", f"{literal(self.shop.now, 'timestamp')} AS {AT}"]
        return bad.selectExpr(*columns, *about)

    @property
    def _declared(self) -> Model:
        about = f"Rows that did not go into {self.model}, because they could not be read or break its rules."
        return declared(self.model, self.model.name.quarantine, about, {**self.model.columns, **_ABOUT})

    def _standing(self) -> Metadata | None:
        name, purpose = self.model.name.quarantine, f"bad rows of {self.model}"
        return standing(self.lake, self.branch, name, purpose, self.touched)

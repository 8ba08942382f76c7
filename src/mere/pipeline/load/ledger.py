"""The ledger of a source, which Spark writes on the run's branch together with the data."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mere.engine.frames import from_arrow
from mere.lake.iceberg.metadata import Metadata
from mere.lake.lake import Lake
from mere.pipeline.write.companions import declared, standing
from mere.pipeline.write.query import Workshop
from mere.pipeline.write.table import expr, prepare
from mere.project.kinds import Kind
from mere.project.model import Model
from mere.sources.ledger import ABOUT, COLUMNS, row_of
from mere.sources.source import Loaded
from mere.sql.spelling.spark import name_of, text_literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A ledger of more files than these is written anew: every plan opens each of them.
_FILES = 20


@dataclass
class Ledger:
    model: Model
    lake: Lake
    branch: str
    shop: Workshop
    touched: bool = False

    def write(self, new: Sequence[Loaded], replaced: Collection[str], afresh: bool) -> None:
        """`replaced`: portions whose rows are gone; `afresh`: all of them."""
        standing = self._standing()
        frame = self._frame(new)
        name = name_of(self.model.name.loads)
        if standing is not None and not afresh and (replaced or _files(standing) > _FILES):
            there = f"portion NOT IN ({', '.join(map(text_literal, replaced))})" if replaced else "true"
            frame = self.shop.spark.table(name).where(there).unionByName(frame)
            afresh = True
        whole = afresh or standing is None
        # So few rows are one file.
        rows = prepare(self._declared, frame, self.shop.spark, standing, whole=whole).coalesce(1)
        writer = rows.writeTo(name).option("distribution-mode", "none")
        if afresh and standing is not None:
            writer.overwrite(expr("true"))
        else:
            writer.append()
        self.touched = True

    def _frame(self, new: Sequence[Loaded]) -> DataFrame:
        import pyarrow as pa

        types = {"string": pa.string(), "bigint": pa.int64(), "timestamp": pa.timestamp("us", tz="UTC")}
        schema = pa.schema([(name, types[kind]) for name, kind in COLUMNS.items()])
        return from_arrow(self.shop.spark, pa.Table.from_pylist([row_of(each) for each in new], schema=schema))

    @property
    def _declared(self) -> Model:
        like = replace(self.model, kind=Kind.FULL, was={})
        return declared(like, self.model.name.loads, f"What was loaded into {self.model}.", ABOUT)

    def _standing(self) -> Metadata | None:
        name, purpose = self.model.name.loads, f"the ledger of {self.model}"
        return standing(self.lake, self.branch, name, purpose, self.touched)


def _files(metadata: Metadata) -> int:
    last = metadata.snapshots[-1:]
    return last[0].count("total-data-files") if last else 0

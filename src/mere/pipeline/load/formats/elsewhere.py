"""Where a Spark on other machines reads the files of a source: in the landing, with the keys of the lake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mere.config import S3Settings
from mere.lake.storage.s3 import hadoop_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession


@dataclass(frozen=True)
class Elsewhere:
    """`addresses`: of each portion; `options`: of whoever reads there."""

    addresses: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, landed: Mapping[str, str], s3: S3Settings | None) -> Elsewhere:
        if s3 is None:
            return cls({name: str(Path(place).absolute()) for name, place in landed.items()})
        # Hadoop's own client of S3 has another name for the scheme.
        addresses = {name: f"s3a://{place.partition('://')[2]}" for name, place in landed.items()}
        return cls(addresses, hadoop_options(s3))

    def reader(self, spark: SparkSession) -> DataFrameReader:
        return spark.read.options(**self.options) if self.options else spark.read

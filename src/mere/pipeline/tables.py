"""A model's table as Spark declares it: made, replaced, or altered to be what the model says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mere.errors import RunFailed
from mere.lake.metadata import Metadata
from mere.names import TableName
from mere.pipeline.layout import Part, is_ordered_as, is_partitioned_as, partitions
from mere.project.model import Model

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType


def prepare(model: Model, frame: DataFrame, spark: SparkSession, table: Metadata | None, whole: bool) -> DataFrame:
    """Before the first write of a build, make the table, or make it what the model says; the frame in its order.

    `table`: as it stands, if it does; `whole`: none of its rows will stay. Only then is anything taken away that the
    model does not mention: somebody else may have put it there.
    """
    _check_columns(model, frame.schema)
    if table is None:
        _create(model, frame.schema, spark, "CREATE TABLE")
        return frame
    stands = spark.table(name_of(model.name)).schema
    if whole and not (
        _types(stands) == _types(frame.schema) and is_partitioned_as(model, table) and is_ordered_as(model, table)
    ):
        _create(model, frame.schema, spark, "CREATE OR REPLACE TABLE")
    else:
        frame = _fitted(model, stands, frame, spark)
        _describe(model, stands, spark, whole)
        if model.sort_by and not is_ordered_as(model, table):
            _sort(model, spark)
    _set_properties(model, frame.schema, spark, table, whole)
    return frame


def fit(model: Model, frame: DataFrame, spark: SparkSession) -> DataFrame:
    """For a further write of a build: the frame with its columns in the table's order."""
    _check_columns(model, frame.schema)
    return _fitted(model, spark.table(name_of(model.name)).schema, frame, spark)


def _types(schema: StructType) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema}


def _fitted(model: Model, table: StructType, frame: DataFrame, spark: SparkSession) -> DataFrame:
    """New columns are added to the table; all else would change what is already there."""
    wrong = [
        f"  {field.name}: {field.dataType.simpleString()} in the table, "
        + (f"{given.dataType.simpleString()} in the query" if given else "not there in the query")
        for field in table
        for given in [field_of(frame.schema, field.name)]
        if given is None or given.dataType.simpleString() != field.dataType.simpleString()
    ]
    if wrong:
        raise RunFailed(
            f"{model.file}: the columns of {model} do not fit the table that stands there.\n" + "\n".join(wrong),
            remedy=f"Mend the query, or build the table again: mere run --full-refresh {model}",
        )
    new = [field for field in frame.schema if field_of(table, field.name) is None]
    if new:
        spark.sql(f"ALTER TABLE {name_of(model.name)} ADD COLUMNS ({_columns(model, new)})")
    return frame.select(*(quoted(field.name) for field in [*table, *new]))


def field_of(schema: StructType, name: str) -> StructField | None:
    """A column by its name, without regard to case, as Spark reads it in a query."""
    return next((field for field in schema if field.name.casefold() == name.casefold()), None)


def _check_columns(model: Model, schema: StructType) -> None:
    names = [field.name for field in schema]
    twice = sorted({name for name in names if [each.lower() for each in names].count(name.lower()) > 1})
    if twice:
        raise RunFailed(
            f"{model.file}: {model} has two columns named {', '.join(twice)}.", remedy="Name one otherwise: AS …"
        )
    void = [field.name for field in schema if field.dataType.typeName() == "void"]
    if void:
        raise RunFailed(
            f"{model.file}: {', '.join(void)} of {model} has no type: it is NULL everywhere.",
            remedy="Give it one: CAST(NULL AS string)",
        )
    if model.time is None:
        return
    time = field_of(schema, model.time.column)
    if time is None:
        raise RunFailed(
            f"{model.file}: {model} has no column {model.time.column}, which is its time_column.",
            remedy=f"It has: {', '.join(names)}.",
        )
    if time.dataType.typeName() not in ("date", "timestamp", "timestamp_ntz"):
        raise RunFailed(
            f"{model.file}: the time_column {time.name} of {model} is a {time.dataType.simpleString()}.",
            remedy="It must be a date or a timestamp in UTC: cast it.",
        )


def _create(model: Model, schema: StructType, spark: SparkSession, how: str) -> None:
    parts = [_partition(part, schema) for part in partitions(model)]
    spark.sql(
        f"{how} {name_of(model.name)} ({_columns(model, schema)}) USING iceberg"
        + (f" PARTITIONED BY ({', '.join(parts)})" if parts else "")
        + comment(model.description)
        + f" TBLPROPERTIES ({_pairs({'format-version': '2', **_properties(model, schema)})})"
    )
    if model.sort_by:
        _sort(model, spark)


def _partition(part: Part, schema: StructType) -> str:
    """In Spark's words. Here, and only here, Spark has regard to case."""
    field = field_of(schema, part.column)
    column = quoted(field.name if field else part.column)
    return f"{part.transform}({', '.join(filter(None, [part.number, column]))})" if part.transform else column


def _sort(model: Model, spark: SparkSession) -> None:
    spark.sql(f"ALTER TABLE {name_of(model.name)} WRITE LOCALLY ORDERED BY {', '.join(model.sort_by)}")


def _describe(model: Model, table: StructType, spark: SparkSession, whole: bool) -> None:
    described = [(field.name, _description(model, field), field.metadata.get("comment", "")) for field in table]
    changed = [(name, new) for name, new, old in described if new != old and (new or whole)]
    if changed:
        comments = ", ".join(f"{quoted(name)} COMMENT {_text(new)}" for name, new in changed)
        spark.sql(f"ALTER TABLE {name_of(model.name)} ALTER COLUMN {comments}")


def _set_properties(model: Model, schema: StructType, spark: SparkSession, table: Metadata, whole: bool) -> None:
    stand = {**table.properties, "format-version": str(table.format_version)}
    wanted = {**_properties(model, schema), **({"comment": model.description} if model.description else {})}
    changed = {name: value for name, value in wanted.items() if stand.get(name) != value}
    if changed:
        spark.sql(f"ALTER TABLE {name_of(model.name)} SET TBLPROPERTIES ({_pairs(changed)})")
    if whole and "comment" in stand and not model.description:
        spark.sql(f"ALTER TABLE {name_of(model.name)} UNSET TBLPROPERTIES ('comment')")


def _properties(model: Model, schema: StructType) -> dict[str, str]:
    time = field_of(schema, model.time.column) if model.time else None
    return {**model.properties, **({f"write.metadata.metrics.column.{time.name}": "full"} if time else {})}


def _pairs(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{_text(name)} = {_text(value)}" for name, value in properties.items())


def _columns(model: Model, fields: Iterable[StructField]) -> str:
    return ", ".join(_ddl(field, _description(model, field)) for field in fields)


def _description(model: Model, field: StructField) -> str:
    return next((text for name, text in model.columns.items() if name.casefold() == field.name.casefold()), "")


def _ddl(field: StructField, description: str) -> str:
    """A column as it is declared. What a query happens to know about nulls is no promise about the table."""
    from pyspark.sql.types import StructField, StructType

    about = {"comment": description} if description else {}
    return StructType([StructField(field.name, _nullable(field.dataType), True, about)]).toDDL()


def _nullable(kind: DataType) -> DataType:
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    match kind:
        case ArrayType():
            return ArrayType(_nullable(kind.elementType), True)
        case MapType():
            return MapType(_nullable(kind.keyType), _nullable(kind.valueType), True)
        case StructType():
            return StructType([StructField(each.name, _nullable(each.dataType), True) for each in kind])
    return kind


def comment(text: str) -> str:
    return f" COMMENT {_text(text)}" if text else ""


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def name_of(table: TableName) -> str:
    return f"{'.'.join(map(quoted, table.namespace.split('.')))}.{quoted(table.name)}"


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"

"""A model's table as Spark declares it: created, altered to fit the model, or replaced where nothing else will do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mere.errors import RunFailed
from mere.lake.iceberg.metadata import Metadata
from mere.lake.iceberg.schema import identifier, partitioning, partitionings
from mere.pipeline.state.columns import Change, Column, What, compare, of_query, of_table, renames
from mere.pipeline.state.layout import Part, is_ordered_as, layout_of, partitions
from mere.pipeline.state.state import PROPERTY, State
from mere.pipeline.write import contract
from mere.project.model import Model
from mere.sources.source import Files, Source
from mere.sql.spelling.spark import name_of, quoted, text_literal

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

# A key that is built again is one row of a large file: its old row is marked as deleted, and the file stays.
_MERGE_ON_READ = {f"write.{what}.mode": "merge-on-read" for what in ("merge", "update", "delete")}


class BreakingChange(RunFailed):
    """The query has lost columns of the table, or gives types that do not hold what is there."""

    def __init__(
        self, model: Model, changes: Sequence[Change], readers: Callable[[str], list[str]] = lambda _: []
    ) -> None:
        self.model, self.changes = model, changes
        told = []
        for change in changes:
            read_by = readers(change.path[0])
            told.append(f"{model} {change}" + (f", read by {', '.join(read_by)}" if read_by else ""))
        lost = next((change.name for change in changes if change.what is What.DROPPED), None)
        rename = f"\nIf it has another name now: `columns: {{new_name: {{was: {lost}}}}}`." if lost else ""
        let_go = f"mere run --allow-breaking {model}"
        remedy = f"Keep the column in the query as it was, or drop it: {let_go}{rename}"
        if isinstance(model.body, Source):  # which changes like this only where all of it is loaded again
            remedy = f"mere run --full-refresh --allow-breaking {model}   to load it so"
        super().__init__("\n".join([f"{model.file}: {told[0]}", *told[1:]]), remedy=remedy)

    def read_by(self, readers: Callable[[str], list[str]]) -> BreakingChange:
        return BreakingChange(self.model, self.changes, readers)


def prepare(
    model: Model,
    frame: DataFrame,
    spark: SparkSession,
    table: Metadata | None,
    whole: bool,
    breaking: bool = False,
) -> DataFrame:
    """Before the first write of a build, make the table, or make it what the model says; the frame in its order.

    `table`: as it stands, if it does; `whole`: none of its rows will stay. Only then is anything taken away that the
    model does not mention: somebody else may have put it there. `breaking`: columns may be dropped and narrowed.
    """
    changes = check_columns(model, frame.schema, spark, table, breaking)
    if table is None:
        _create(model, frame.schema, spark, "CREATE TABLE")
        return frame
    stands = of_table(table.schema)
    if incompatible := _incompatible(model, stands, table, changes):
        if not whole:
            raise RunFailed(
                f"{model.file}: {model} {incompatible[0]}, which existing rows cannot have.",
                remedy=f"Rebuild it: mere run --full-refresh{' --allow-breaking' if breaking else ''} {model}",
            )
        _create(model, frame.schema, spark, "CREATE OR REPLACE TABLE")
    else:
        _alter(model, frame.schema, spark, table, changes, whole)
    _set_properties(model, frame.schema, spark, table, whole)
    return frame.select(*(quoted(name) for name in _in_order(stands, frame.columns, changes)))


def check_columns(
    model: Model, schema: StructType, spark: SparkSession, stands: Metadata | None, breaking: bool
) -> list[Change]:
    """What has to become of the columns of the table or view that stands there, if it may."""
    _check_names(model, schema)
    given = of_query(schema.jsonValue())
    contract.check(model, given, spark)
    changes = compare(of_table(stands.schema), given, model.was) if stands else []
    if (breaks := [change for change in changes if change.breaks]) and not breaking:
        raise BreakingChange(model, breaks)
    return changes


def alter(model: Model, spark: SparkSession, table: Metadata) -> None:
    """What can be done without a row: layout, declared names, columns that may be null from now on."""
    stands = of_table(table.schema)
    renamed = list(renames([each.name for each in stands], model.was, model.was))
    _alter(model, spark.table(name_of(model.name)).schema, spark, table, renamed, whole=False)


def fit(model: Model, frame: DataFrame, spark: SparkSession) -> DataFrame:
    """For a further write of a build: the frame with its columns in the table's order."""
    stands = spark.table(name_of(model.name)).schema
    if others := compare(of_query(stands.jsonValue()), of_query(frame.schema.jsonValue()), {}):
        raise RunFailed(f"{model.file}: {model} {others[0]} for some windows but not for others.")
    return frame.select(*(quoted(field.name) for field in stands))


def _incompatible(model: Model, stands: Sequence[Column], table: Metadata, changes: Sequence[Change]) -> list[str]:
    """What Iceberg does not do to a table with rows, or what DuckDB does not survive: that files are partitioned by a
    column which is gone ends its process."""
    by = {what: [change for change in changes if change.what is what] for what in What}
    renamed = {str(each.old): each.name for each in by[What.RENAMED]}
    required = {renamed.get(each.name, each.name).casefold() for each in stands if each.required}
    cut_by = {Part.parse(text).column for parts in partitionings(table).values() for text in parts}
    return [
        *map(str, by[What.NARROWED]),
        *(f"{each}, by which it is partitioned" for each in by[What.DROPPED] if each.name in cut_by),
        *(
            f"promises that {name} is never null"
            for name in contract.required(model)
            if name.casefold() not in required
        ),
    ]


def _in_order(stands: Iterable[Column], given: Iterable[str], changes: Iterable[Change]) -> list[str]:
    """The query's columns as they come in the table."""
    names = {name.casefold(): name for name in given}
    renamed = {str(each.old): each.name for each in changes if each.what is What.RENAMED}
    kept = (renamed.get(each.name, each.name).casefold() for each in stands)
    first = [names.pop(name) for name in kept if name in names]
    return [*first, *names.values()]


def _alter(
    model: Model, schema: StructType, spark: SparkSession, table: Metadata, changes: Sequence[Change], whole: bool
) -> None:
    """Column by column, so that each keeps its id: what was read before is still read by it."""
    name = name_of(model.name)
    by = {what: [change for change in changes if change.what is what] for what in What}
    renamed = {str(change.old): change.name for change in by[What.RENAMED]}
    _free_key(model, table, renamed, {change.name for change in by[What.DROPPED]}, spark)
    for change in by[What.RENAMED]:
        spark.sql(f"ALTER TABLE {name} RENAME COLUMN {quoted(str(change.old))} TO {quoted(change.name)}")
    for change in by[What.WIDENED]:
        spark.sql(f"ALTER TABLE {name} ALTER COLUMN {_path(change.path)} TYPE {change.new}")
    if new := by[What.ADDED]:
        added = ", ".join(_added(model, schema, change) for change in new)
        spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({added})")
    stands = of_table(table.schema)
    _relax(model, stands, renamed, spark)
    if whole or _was_declared_otherwise(model, table):
        _lay_out(model, schema, spark, table, renamed)
    elif model.sort_by and not is_ordered_as(model, table):
        _sort(model, spark)
    if gone := by[What.DROPPED]:
        spark.sql(f"ALTER TABLE {name} DROP COLUMNS ({', '.join(_path(change.path) for change in gone)})")
    lost = {change.name for change in gone}
    _describe(model, [each for each in stands if each.name not in lost], renamed, spark, whole)


def _path(path: Iterable[str]) -> str:
    return ".".join(map(quoted, path))


def _added(model: Model, schema: StructType, change: Change) -> str:
    field = field_of(schema, change.path[0])
    if len(change.path) == 1 and field is not None:
        return _ddl(model, field)
    return f"{_path(change.path)} {change.new}"


def _was_declared_otherwise(model: Model, table: Metadata) -> bool:
    text = table.properties.get(PROPERTY)
    state = State.from_json(text) if text else None
    return state is not None and state.layout not in (None, layout_of(model))


def _free_key(
    model: Model, table: Metadata, renamed: Mapping[str, str], dropped: Collection[str], spark: SparkSession
) -> None:
    """Iceberg lets no identifier field go or be null. What is one afterwards is said again with the table's state."""
    fields = identifier(table.schema)
    if any(each in dropped or contract.allows_null(model, renamed.get(each, each)) for each in fields):
        spark.sql(f"ALTER TABLE {name_of(model.name)} DROP IDENTIFIER FIELDS {', '.join(map(quoted, fields))}")


def _relax(model: Model, stands: Iterable[Column], renamed: Mapping[str, str], spark: SparkSession) -> None:
    for column in stands:
        name = renamed.get(column.name, column.name)
        if column.required and contract.allows_null(model, name):
            spark.sql(f"ALTER TABLE {name_of(model.name)} ALTER COLUMN {quoted(name)} DROP NOT NULL")


def _lay_out(
    model: Model, schema: StructType, spark: SparkSession, table: Metadata, renamed: Mapping[str, str]
) -> None:
    """Files stay as they are: what is written from now on lies as declared."""
    have = [Part.parse(text) for text in partitioning(table)]
    have = [Part(renamed.get(part.column, part.column), part.transform, part.number) for part in have]
    wanted = partitions(model)
    for part in _without(have, wanted):
        spark.sql(f"ALTER TABLE {name_of(model.name)} DROP PARTITION FIELD {_partition(part, schema)}")
    for part in _without(wanted, have):
        spark.sql(f"ALTER TABLE {name_of(model.name)} ADD PARTITION FIELD {_partition(part, schema)}")
    if not is_ordered_as(model, table):
        _sort(model, spark)


def _without(parts: Iterable[Part], others: Collection[Part]) -> list[Part]:
    known = {each.words for each in others}
    return [part for part in parts if part.words not in known]


def field_of(schema: StructType, name: str) -> StructField | None:
    """A column by its name, without regard to case, as Spark reads it in a query."""
    return next((field for field in schema if field.name.casefold() == name.casefold()), None)


def _check_names(model: Model, schema: StructType) -> None:
    names = [field.name for field in schema]
    twice = sorted({name for name in names if [each.lower() for each in names].count(name.lower()) > 1})
    if twice:
        raise RunFailed(f"{model.file}: {model} has two columns named {', '.join(twice)}.", remedy="Rename one: AS …")
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
    order = f"LOCALLY ORDERED BY {', '.join(model.sort_by)}" if model.sort_by else "UNORDERED"
    spark.sql(f"ALTER TABLE {name_of(model.name)} WRITE {order}")


def _describe(
    model: Model, table: Iterable[Column], renamed: Mapping[str, str], spark: SparkSession, whole: bool
) -> None:
    named = [(renamed.get(each.name, each.name), each.comment) for each in table]
    described = [(name, _description(model, name), old) for name, old in named]
    changed = [(name, new) for name, new, old in described if new != old and (new or whole)]
    if changed:
        comments = ", ".join(f"{quoted(name)} COMMENT {text_literal(new)}" for name, new in changed)
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
    found = (field_of(schema, name) for name in _told_in_full(model))
    declared = {**(_MERGE_ON_READ if _goes_by_key(model) else {}), **model.properties}
    return {**declared, **{f"write.metadata.metrics.column.{each.name}": "full" for each in found if each}}


def _goes_by_key(model: Model) -> bool:
    if isinstance(model.body, Source):
        return bool(model.key) and not isinstance(model.body.feed, Files)
    return model.kind.rules.by_key


def _told_in_full(model: Model) -> list[str]:
    """Columns by which whole files are replaced: their bounds must not be cut."""
    origin = [model.body.trace.file] if isinstance(model.body, Source) and model.body.trace.file else []
    return [*([model.time.column] if model.time else []), *origin]


def _pairs(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{text_literal(name)} = {text_literal(value)}" for name, value in properties.items())


def _columns(model: Model, fields: Iterable[StructField]) -> str:
    return ", ".join(_ddl(model, field) for field in fields)


def _description(model: Model, column: str) -> str:
    return next((text for name, text in model.columns.items() if name.casefold() == column.casefold()), "")


def _ddl(model: Model, field: StructField) -> str:
    """A column as it is declared. What a query happens to know about nulls is no promise about the table.

    Not by Spark's own `toDDL`, which would ask the server for every column.
    """
    from pyspark.sql.types import StructType

    (column,) = of_query(StructType([field]).jsonValue())
    required = field.name.casefold() in map(str.casefold, contract.required(model))
    null = " NOT NULL" if required else ""
    return f"{quoted(column.name)} {column.type}{null}{comment(_description(model, field.name))}"


def comment(text: str) -> str:
    return f" COMMENT {text_literal(text)}" if text else ""


def expr(sql: str) -> SparkColumn:
    from pyspark.sql import functions

    return functions.expr(sql)

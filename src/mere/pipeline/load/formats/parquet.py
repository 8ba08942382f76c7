"""Parquet files: their footers and their rows. A column that has the table's type already is read unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mere.audits.quarantine import NO_RULES, gathered
from mere.errors import RunFailed
from mere.names import RULES
from mere.pipeline.load.formats.batch import Batch
from mere.pipeline.load.formats.casts import How, how, is_exact
from mere.pipeline.load.formats.columns import Agreement, Seen, Shape, Target
from mere.pipeline.load.formats.text import LINE, RAW, WHY, of_type, shown
from mere.pipeline.state.columns import Array, Column, Map, Struct, Type
from mere.sql.spelling.spark import quoted, text_literal

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_MAGIC = b"PAR1"
# Spark reads times of nanoseconds only as numbers, and only if told so.
_NANOS_AS_NUMBERS = ("spark.sql.legacy.parquet.nanosAsLong", "true")


@dataclass(frozen=True, order=True)
class Field:
    """A column of a file: as what Spark reads it, and what it is then made of it."""

    name: str
    read: str  # a type
    sql: str  # over the column as it is read
    type: Type | None  # as a table of Iceberg has it; None: it has no value

    @property
    def is_nanos(self) -> bool:
        return self.sql != quoted(self.name)

    @property
    def seen(self) -> Seen:
        return Seen(self.name, self.type)


Fields = tuple[Field, ...]


def shape_of(fields: Fields) -> Shape:
    return tuple(field.seen for field in fields)


def schema_of(fields: Fields) -> str:
    """What Spark is told to read, so that it need not open a file to find out."""
    return ", ".join(f"{quoted(field.name)} {field.read}" for field in fields if field.type is not None)


def parquet_frames(batch: Batch, agreement: Agreement) -> tuple[list[DataFrame], bool]:
    """And whether no row of them can be bad. Files with the same columns are read together, in whatever order they have
    them."""
    found = batch.look(lambda portion, path: fields_of(path, batch.place(portion)))
    named = batch.agree(agreement, {name: shape_of(fields) for name, fields in found.items()})
    targets, groups = agreement.finish(), dict[tuple[Field, ...], list[str]]()
    for name, fields in found.items():
        groups.setdefault(tuple(sorted(fields)), []).append(name)
    if any(field.is_nanos for fields in groups for field in fields):
        batch.spark.conf.set(*_NANOS_AS_NUMBERS)
    frames, sure = [], True
    for names in groups.values():
        fields, columns = found[names[0]], named[names[0]]
        read = batch.read.schema(schema_of(fields)).parquet(*batch.paths_of(names))
        frames.append(parquet_rows(batch.located(read, names), fields, targets, columns, batch.kept))
        sure = sure and is_sure(fields, targets, columns)
    return frames, sure


def fields_of(path: Path, place: str) -> Fields:
    """From the footer. `place`: for messages."""
    import pyarrow as pa
    from pyarrow import parquet

    with path.open("rb") as file:
        start = file.read(4)
        file.seek(max(0, path.stat().st_size - 4))
        end = file.read(4)
    if start != _MAGIC:
        raise RunFailed(f"{place} is not Parquet: it begins with {start!r}. Nothing was loaded.")
    if end != _MAGIC:
        raise RunFailed(f"{place} is cut off: Parquet ends with a footer. Nothing was loaded.", remedy="Get it again.")
    try:
        metadata = parquet.read_metadata(path)
        schema = metadata.schema.to_arrow_schema()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        message = str(error).partition("\n")[0]
        raise RunFailed(f"{place} is damaged: {message} Nothing was loaded.", remedy="Get it again.") from error
    leaves = (metadata.schema.column(at) for at in range(metadata.num_columns))
    old_times = {leaf.path.partition(".")[0] for leaf in leaves if leaf.physical_type == "INT96"}
    return tuple(_field(each, each.name in old_times, place) for each in schema)


def _field(field: pa.Field, old_times: bool, place: str) -> Field:
    import pyarrow as pa

    kind, name = field.type, quoted(field.name)
    if pa.types.is_null(kind):
        return Field(field.name, "void", name, None)
    if pa.types.is_timestamp(kind) and kind.unit == "ns" and not old_times:
        micros = f"timestamp_micros(({name} - pmod({name}, 1000)) div 1000)"
        made = "timestamp" if kind.tz else "timestamp_ntz"
        return Field(field.name, "bigint", micros if kind.tz else f"CAST({micros} AS timestamp_ntz)", made)
    try:
        read = _spark_type(kind, old_times)
    except NotImplementedError as error:
        raise RunFailed(
            f"{place}: Spark cannot read {field.name}, {kind}. Nothing was loaded.",
            remedy="Write the file with another type.",
        ) from error
    return Field(field.name, str(read), name, held(read))


def _spark_type(kind: pa.DataType, old_times: bool) -> Type:
    """As what Spark reads it. `old_times`: nanoseconds in 96 bits, which are always instants."""
    import pyarrow as pa

    simple = _simple().get(kind.id)
    if simple is not None:
        return simple
    is_ = pa.types
    if is_.is_dictionary(kind):
        return _spark_type(kind.value_type, old_times)
    if is_.is_decimal(kind) and kind.precision <= 38:
        return f"decimal({kind.precision},{kind.scale})"
    if is_.is_timestamp(kind) and (old_times or kind.unit != "ns"):
        return "timestamp" if kind.tz or old_times else "timestamp_ntz"
    if is_.is_struct(kind):
        return Struct(tuple(Column(each.name, _spark_type(each.type, old_times)) for each in kind))
    if is_.is_map(kind):
        return Map(_spark_type(kind.key_type, old_times), _spark_type(kind.item_type, old_times))
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        return Array(_spark_type(kind.value_type, old_times))
    raise NotImplementedError(kind)


def _simple() -> dict[Any, str]:
    import pyarrow as pa

    named = {
        "boolean": [pa.bool_()],
        "tinyint": [pa.int8()],
        "smallint": [pa.int16(), pa.uint8()],
        "int": [pa.int32(), pa.uint16()],
        "bigint": [pa.int64(), pa.uint32(), pa.duration("us")],
        "decimal(20,0)": [pa.uint64()],
        "float": [pa.float32()],
        "double": [pa.float64()],
        "string": [pa.string(), pa.large_string(), pa.string_view()],
        "binary": [pa.binary(), pa.large_binary(), pa.binary(1), pa.binary_view()],
        "date": [pa.date32(), pa.date64()],
    }
    return {each.id: name for name, kinds in named.items() for each in kinds}


def held(kind: Type) -> Type:
    """As a table of Iceberg has it."""
    match kind:
        case Struct():
            return Struct(tuple(Column(each.name, held(each.type)) for each in kind.fields))
        case Array():
            return Array(held(kind.element))
        case Map():
            return Map(held(kind.key), held(kind.value))
    return "int" if kind in ("tinyint", "smallint") else kind


def _way(fields: Fields, target: Target, named: Mapping[str, int]) -> How | None:
    at = named.get(target.name)
    kind = fields[at].type if at is not None else None
    return how(kind, target.type, target.declared) if kind is not None else None


def is_sure(fields: Fields, targets: Iterable[Target], named: Mapping[str, int]) -> bool:
    """Whether no value can be bad."""
    return all(_way(fields, target, named) is not How.CHECK for target in targets)


def parquet_rows(
    frame: DataFrame, fields: Fields, targets: Sequence[Target], named: Mapping[str, int], kept: Mapping[str, str]
) -> DataFrame:
    """The rows of the table, and why some of them are bad. `kept`: columns that go on as they are, in SQL, by name."""
    columns, bad = [], []
    for target in targets:
        way = _way(fields, target, named)
        given = fields[named[target.name]] if way else None
        if given is None:
            sql = f"CAST(NULL AS {target.sql})"
        elif way is How.AS_IT_IS and target.sql == given.read:
            sql = given.sql
        elif way is not How.CHECK:
            sql = f"CAST({given.sql} AS {target.sql})"
        else:
            sql = _checked(given, target)
            bad.append((f"({given.sql} IS NOT NULL AND {sql} IS NULL)", target, given))
        columns.append(f"{sql} AS {quoted(target.name)}")
    rules = gathered((condition, text_literal(of_type(target.name))) for condition, target, _ in bad)
    whys = gathered((condition, _why(target, given)) for condition, target, given in bad)
    any_bad = " OR ".join(condition for condition, *_ in bad)
    record = f"to_json(struct({', '.join(quoted(each.name) for each in fields if each.type is not None)}))"
    only_if_bad = {
        RULES: (rules, NO_RULES),
        WHY: (f"array_join({whys}, '; ')", "CAST(NULL AS string)"),
        RAW: (record, "NULL"),
    }
    told = {
        name: f"CASE WHEN {any_bad} THEN {sql} ELSE {other} END" if bad else other
        for name, (sql, other) in only_if_bad.items()
    }
    told |= {} if bad else {RAW: "CAST(NULL AS string)"}
    return frame.selectExpr(
        *columns,
        *(f"{sql} AS {quoted(name)}" for name, sql in kept.items()),
        f"{told[RULES]} AS {RULES}",
        f"{told[WHY]} AS {WHY}",
        f"CAST(NULL AS bigint) AS {LINE}",
        f"{told[RAW]} AS {RAW}",
    )


def _checked(given: Field, target: Target) -> str:
    """NULL for a value that does not fit."""
    cast = f"try_cast({given.sql} AS {target.sql})"
    if not is_exact(str(given.type), str(target.type)):
        return cast
    return f"IF(CAST({cast} AS {given.type}) = {given.sql}, {cast}, NULL)"


def _why(target: Target, given: Field) -> str:
    value = shown(f"CAST({given.sql} AS string)")
    return f"concat({text_literal(target.name + ': ')}, {value}, {text_literal(f' is not {target.sql}')})"

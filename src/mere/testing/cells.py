"""A value in a test: its value in its column's type, and the type that it looks to have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from mere.entries import Entry
from mere.errors import ConfigError
from mere.windows import instant

if TYPE_CHECKING:
    import pyarrow as pa

_TAG = "tag:yaml.org,2002:"
_WORDS = {".nan": "nan", ".inf": "inf", "+.inf": "inf", "-.inf": "-inf"}


def value_of(cell: Entry, kind: pa.DataType) -> Any:
    """As Arrow would give it in Python. Text and decimals are what is written, whatever YAML would make of it."""
    import yaml
    from pyarrow import types

    if cell.node is None or cell.is_null:
        return None
    if types.is_list(kind):
        if not isinstance(cell.node, yaml.SequenceNode):
            raise _unfit(cell, kind)
        return [value_of(each, kind.value_type) for each in cell.items()]
    if types.is_struct(kind):
        return _struct(cell, kind)
    if types.is_map(kind):
        keys = [Entry(cell.file, cell.key, node, cell.first_line) for node, _ in _pairs(cell, kind)]
        values = cell.entries().values()
        return [(value_of(k, kind.key_type), value_of(v, kind.item_type)) for k, v in zip(keys, values, strict=True)]
    if not isinstance(cell.node, yaml.ScalarNode):
        raise _unfit(cell, kind)
    try:
        return _scalar(cell, str(cell.node.value), kind)
    except (ValueError, InvalidOperation, OverflowError) as error:
        raise _unfit(cell, kind) from error


def _scalar(cell: Entry, text: str, kind: pa.DataType) -> Any:
    import pyarrow as pa
    from pyarrow import types

    if types.is_string(kind):
        return text
    if types.is_boolean(kind):
        return {"true": True, "false": False}[text.lower()] if text.lower() in ("true", "false") else _no_value()
    if types.is_integer(kind):
        number = int(text.replace("_", ""))
        return number if -(1 << kind.bit_width - 1) <= number < 1 << kind.bit_width - 1 else _no_value()
    if types.is_floating(kind):
        # As exact as the column is: 0.1 of a FLOAT is not that of a DOUBLE.
        return pa.scalar(float(_WORDS.get(text.lower(), text)), kind).as_py()
    if types.is_decimal(kind):
        return _decimal(text, kind)
    if types.is_date(kind):
        return date.fromisoformat(text)
    if types.is_timestamp(kind):
        at = instant(text)
        return at if kind.tz else at.replace(tzinfo=None)
    value = cell.value()
    return value if isinstance(value, bytes) else text.encode()


def _decimal(text: str, kind: pa.DataType) -> Decimal:
    number = Decimal(text)
    exponent = number.normalize().as_tuple().exponent
    digits = number.adjusted() + 1 + kind.scale
    if not isinstance(exponent, int) or -exponent > kind.scale or (number and digits > kind.precision):
        raise ValueError
    return number


def _no_value() -> Any:
    raise ValueError


def _struct(cell: Entry, kind: pa.DataType) -> dict[str, Any]:
    given = {name: value for (name, value), _ in zip(cell.entries().items(), _pairs(cell, kind), strict=True)}
    known = [kind.field(index) for index in range(kind.num_fields)]
    names = {field.name for field in known}
    for name, value in given.items():
        if name not in names:
            raise value.error(f"there is no field `{name}` in {kind}")
    return {field.name: value_of(given[field.name], field.type) if field.name in given else None for field in known}


def _pairs(cell: Entry, kind: pa.DataType) -> list[tuple[Any, Any]]:
    import yaml

    if not isinstance(cell.node, yaml.MappingNode):
        raise _unfit(cell, kind)
    return list(cell.node.value)


def _unfit(cell: Entry, kind: pa.DataType) -> ConfigError:
    import yaml

    shown = f"`{cell.node.value}`" if isinstance(cell.node, yaml.ScalarNode) else "this"
    return cell.error(f"{shown} is not a value of the type {shown_type(kind)}")


def shown_type(kind: pa.DataType) -> str:
    """In Spark's words, for the types that have others in Arrow."""
    words = {"int64": "bigint", "int32": "int", "date32[day]": "date", "bool": "boolean", "float": "float"}
    words |= {"timestamp[us, tz=UTC]": "timestamp", "timestamp[us]": "timestamp_ntz"}
    return words.get(str(kind), str(kind).replace("decimal128", "decimal"))


def inferred(cells: Iterable[Entry]) -> pa.DataType:
    """The type that fits all of them; text if nothing else does, or nothing is known."""
    import pyarrow as pa

    filled = [cell for cell in cells if cell.node is not None and not cell.is_null]
    kinds = {_tag(cell) for cell in filled}
    if kinds == {"seq"}:
        return pa.list_(inferred(each for cell in filled for each in cell.items()))
    if kinds == {"map"}:
        return _inferred_struct(filled)
    if kinds == {"timestamp"}:
        return pa.timestamp("us", tz="UTC") if any(_has_time(cell) for cell in filled) else pa.date32()
    plain = {frozenset({"bool"}): pa.bool_(), frozenset({"int"}): pa.int64(), frozenset({"binary"}): pa.binary()}
    plain |= dict.fromkeys((frozenset({"float"}), frozenset({"int", "float"})), pa.float64())
    return plain.get(frozenset(kinds), pa.string())


def _inferred_struct(cells: Sequence[Entry]) -> pa.DataType:
    import pyarrow as pa

    found: dict[str, list[Entry]] = {}
    for cell in cells:
        for name, value in cell.entries().items():
            found.setdefault(name, []).append(value)
    return pa.struct([pa.field(name, inferred(values)) for name, values in found.items()])


def _tag(cell: Entry) -> str:
    return str(getattr(cell.node, "tag", "")).removeprefix(_TAG)


def _has_time(cell: Entry) -> bool:
    return isinstance(cell.value(), datetime)

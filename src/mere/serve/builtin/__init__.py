"""What every Postgres has: the columns of its catalogs, its types, functions, operators, casts.

They are facts about Postgres 18, kept as files of tab-separated values beside this one; tests/serve/postgres_facts.py
asks a real one for them. Of operators and casts, only those of types that the gateway serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

Values = Sequence[Any]  # one for each row

_ELEMENTS = {"int2vector": "smallint", "oidvector": "oid", "anyarray": "text"}
_ZEROS: dict[str, Any] = {"boolean": False, "double precision": 0.0, "real": 0.0}
_NUMBERS = frozenset({"oid", "regproc", "smallint", "integer", "bigint", "xid", "cardinal_number"})

# The functions of Postgres that a query through the gateway may call, as pg_proc lists them.
_NAMES = """
abs ceil ceiling floor round trunc sign sqrt cbrt exp ln log power mod pi random degrees radians sin cos tan
asin acos atan atan2 greatest least gcd lcm lower upper length char_length octet_length bit_length substr
substring left right lpad rpad btrim ltrim rtrim replace translate reverse repeat split_part starts_with
strpos concat concat_ws initcap md5 ascii chr format quote_ident quote_literal quote_nullable to_hex encode
decode regexp_replace regexp_matches string_to_array array_to_string array_length array_upper array_lower
array_position cardinality array_append array_cat unnest now clock_timestamp statement_timestamp
transaction_timestamp date_trunc date_part age make_date make_time make_timestamp to_char to_date to_timestamp
count sum avg min max stddev stddev_pop stddev_samp variance var_pop var_samp
bool_and bool_or every string_agg array_agg json_agg bit_and bit_or corr covar_pop covar_samp regr_slope
regr_intercept regr_r2 regr_count row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value
last_value nth_value generate_series generate_subscripts version current_database current_schema
current_schemas current_user session_user current_setting set_config pg_backend_pid pg_get_userbyid
pg_get_expr pg_get_viewdef pg_get_constraintdef pg_get_indexdef pg_get_functiondef pg_get_function_arguments
pg_get_function_result pg_get_function_identity_arguments pg_get_triggerdef pg_get_ruledef pg_get_partkeydef
pg_get_serial_sequence pg_get_keywords pg_table_is_visible pg_type_is_visible pg_function_is_visible
format_type obj_description col_description shobj_description has_table_privilege has_schema_privilege
has_database_privilege has_column_privilege has_any_column_privilege has_function_privilege pg_has_role
pg_encoding_to_char pg_relation_size pg_table_size pg_total_relation_size pg_indexes_size pg_database_size
pg_size_pretty pg_is_in_recovery pg_postmaster_start_time pg_conf_load_time inet_server_addr inet_server_port
inet_client_addr inet_client_port txid_current to_regclass to_regtype gen_random_uuid array_remove
array_replace array_positions array_prepend array_ndims any_value bit_xor div pow cot sinh cosh tanh asinh
acosh atanh date_bin isfinite make_interval json_array_elements json_array_elements_text json_array_length
json_build_array json_build_object json_extract_path json_extract_path_text json_object_agg json_object_keys
json_typeof jsonb_agg jsonb_array_elements jsonb_array_elements_text jsonb_array_length jsonb_build_array
jsonb_build_object jsonb_extract_path jsonb_extract_path_text jsonb_object_agg jsonb_object_keys jsonb_typeof
mode num_nulls num_nonnulls percentile_cont percentile_disc regexp_count regexp_like
regexp_match regexp_split_to_array regexp_split_to_table regexp_substr regr_avgx regr_avgy regr_sxx regr_sxy
regr_syy row_to_json string_to_table to_json to_jsonb array_to_json to_regnamespace to_regproc to_regrole
pg_char_to_encoding pg_client_encoding pg_column_is_updatable pg_my_temp_schema pg_tablespace_location
pg_options_to_table aclexplode getdatabaseencoding
"""
OFFERED = frozenset(_NAMES.split())


_PG_CATALOG, _OWNER, _INTERNAL = 11, 10, 12
# What all rows of a file have.
SAME: dict[str, dict[str, Any]] = {
    "pg_type": {"typowner": _OWNER, "typisdefined": True},
    "pg_proc": {"pronamespace": _PG_CATALOG, "proowner": _OWNER, "prolang": _INTERNAL},
    "pg_operator": {"oprnamespace": _PG_CATALOG, "oprowner": _OWNER},
    "pg_opclass": {"opcowner": _OWNER},
    "pg_opfamily": {"opfowner": _OWNER},
    "pg_language": {"lanowner": _OWNER},
    "pg_collation": {"collowner": _OWNER},
}


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    required: bool


@dataclass(frozen=True)
class Definition:
    """A relation of pg_catalog or information_schema."""

    schema: str
    name: str
    oid: int
    kind: str  # r: a table, v: a view
    columns: tuple[Column, ...]


@cache
def definitions() -> dict[str, Definition]:
    """By schema and name, such as `pg_catalog.pg_class`."""
    found = {}
    for full, oid, kind, columns in rows("relations"):
        schema, _, name = full.partition(".")
        found[full] = Definition(schema, name, int(oid), kind, tuple(map(_column, columns.split(", "))))
    return found


@cache
def columns(name: str) -> dict[str, Values]:
    definition = definitions()[f"pg_catalog.{name}"]
    types = {column.name: column for column in definition.columns}
    header, *rows = _file(name)
    return {column: [_value(row[at], types[column]) for row in rows] for at, column in enumerate(header)}


@cache
def functions() -> dict[int, str]:
    known = columns("pg_proc")
    return dict(zip(known["oid"], known["proname"], strict=True))


@cache
def schema_oid(name: str) -> int:
    schemas = columns("pg_namespace")
    return int(schemas["oid"][schemas["nspname"].index(name)])


@cache
def keywords() -> dict[str, str]:
    """Words that mean something in SQL, and whether they may be names, by Postgres's letter for it."""
    return {word: kind for word, kind, *_ in keyword_rows()}


def keyword_rows() -> list[list[str]]:
    return rows("keywords")


def has(name: str) -> bool:
    """Whether every Postgres has rows there."""
    return files(__package__).joinpath(f"{name}.tsv").is_file()


def _column(text: str) -> Column:
    name, _, type_ = text.partition(" ")
    return Column(name, type_.rstrip("!"), type_.endswith("!"))


def rows(name: str) -> list[list[str]]:
    """The lines of a file, without its header."""
    return _file(name)[1:]


def _file(name: str) -> list[list[str]]:
    text = files(__package__).joinpath(f"{name}.tsv").read_text("utf-8")
    return [line.split("\t") for line in text.split("\n") if line]


def element_of(type_: str) -> str | None:
    """The type of what is in an array."""
    return type_[:-2] if type_.endswith("[]") else _ELEMENTS.get(type_)


def zero(type_: str) -> Any:
    """What a column holds that is never NULL and says nothing."""
    if type_ in _NUMBERS:
        return 0
    return [] if element_of(type_) else _ZEROS.get(type_, "")


def _value(text: str, column: Column) -> Any:
    element = element_of(column.type)
    if not text:
        return zero(column.type) if column.required else None
    if element:
        return [_scalar(each, element) for each in text.split(",")]
    return _scalar(text, column.type)


def _scalar(text: str, type_: str) -> Any:
    if type_ == "boolean":
        return text == "t"
    return int(text) if type_ in ("oid", "regproc", "smallint", "integer", "bigint") else text

"""The facts about Postgres that the gateway's catalogs hold, as a real one tells them.

`python -m tests.serve.postgres_facts` writes them anew; a test compares what is written with what is true.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import psycopg

from mere.serve import builtin
from tests.services.postgres import Postgres

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

SERVED = (
    "'bool', 'int2', 'int4', 'int8', 'float4', 'float8', 'numeric', 'text', 'varchar', 'bpchar', 'name', 'char', 'oid',"
    " 'date', 'time', 'timetz', 'timestamp', 'timestamptz', 'interval', 'uuid', 'bytea', 'json', 'jsonb', 'regclass',"
    " 'regtype', 'regproc', 'regnamespace', 'anyelement', 'anyarray', 'anycompatible', 'anycompatiblearray'"
)
_OF = f"(SELECT oid FROM pg_type WHERE typname IN ({SERVED}))"

# What is not asked for is left out: such a column has the zero of its type, or NULL.
QUERIES = {
    "pg_type": """
        SELECT oid, typname, typnamespace, typlen, typbyval, typtype, typcategory, typispreferred, typdelim,
               typelem, typarray, typsubscript::oid, typinput::oid, typoutput::oid, typreceive::oid, typsend::oid,
               typmodin::oid, typmodout::oid, typalign, typstorage, typbasetype, typtypmod, typcollation, typdefault
        FROM pg_type t
        WHERE typrelid = 0
          AND (typelem = 0 OR NOT EXISTS (SELECT FROM pg_type e WHERE e.oid = t.typelem AND e.typrelid <> 0))
        ORDER BY oid""",
    "pg_proc": f"""
        SELECT oid, proname, prokind, prosecdef, proleakproof, proisstrict, proretset, provolatile, proparallel,
               pronargs, pronargdefaults, prorettype, proargtypes::oid[], proallargtypes, proargmodes, proargnames,
               prosrc, provariadic
        FROM pg_proc p
        WHERE oid IN (SELECT unnest(ARRAY[typinput, typoutput, typreceive, typsend, typmodin, typmodout,
                                          typsubscript]::oid[]) FROM pg_type)
           OR oid IN (SELECT amhandler FROM pg_am)
           OR oid IN (SELECT unnest(ARRAY[lanplcallfoid, laninline, lanvalidator])
                      FROM pg_language WHERE lanname IN ('internal', 'c', 'sql'))
           OR oid IN (SELECT unnest(ARRAY[rngcanonical, rngsubdiff]::oid[]) FROM pg_range)
           OR oid IN (SELECT castfunc FROM pg_cast WHERE castsource IN {_OF} AND casttarget IN {_OF})
           OR proname = ANY(%(offered)s)
              AND (prorettype IN {_OF} OR prorettype::regtype::text IN ('text[]', 'record', 'name[]'))
              AND NOT EXISTS (SELECT FROM unnest(proargtypes) a
                              WHERE a NOT IN {_OF} AND a::regtype::text NOT IN ('text[]', '"any"', 'name[]'))
        ORDER BY oid""",
    "pg_operator": f"""
        SELECT oid, oprname, oprkind, oprcanmerge, oprcanhash, oprleft, oprright, oprresult, oprcom, oprnegate
        FROM pg_operator WHERE (oprleft = 0 OR oprleft IN {_OF}) AND oprright IN {_OF} ORDER BY oid""",
    "pg_cast": f"""
        SELECT oid, castsource, casttarget, castfunc, castcontext, castmethod
        FROM pg_cast WHERE castsource IN {_OF} AND casttarget IN {_OF} ORDER BY oid""",
    "pg_opclass": """
        SELECT oid, opcmethod, opcname, opcnamespace, opcfamily, opcintype, opcdefault, opckeytype
        FROM pg_opclass ORDER BY oid""",
    "pg_opfamily": """
        SELECT oid, opfmethod, opfname, opfnamespace FROM pg_opfamily ORDER BY oid""",
    "pg_range": """
        SELECT rngtypid, rngsubtype, rngmultitypid, rngcollation, rngsubopc, rngcanonical::oid, rngsubdiff::oid
        FROM pg_range ORDER BY rngtypid""",
    "pg_am": "SELECT oid, amname, amhandler::oid, amtype FROM pg_am ORDER BY oid",
    "pg_language": """
        SELECT oid, lanname, lanispl, lanpltrusted, lanplcallfoid, laninline, lanvalidator
        FROM pg_language WHERE lanname IN ('internal', 'c', 'sql') ORDER BY oid""",
    "pg_collation": """
        SELECT oid, collname, collnamespace, collprovider, collisdeterministic, collencoding, collcollate, collctype
        FROM pg_collation WHERE collname IN ('default', 'C', 'POSIX') ORDER BY oid""",
    "pg_tablespace": "SELECT oid, spcname, spcowner FROM pg_tablespace ORDER BY oid",
    "pg_namespace": "SELECT oid, nspname, nspowner FROM pg_namespace WHERE nspname !~ '^pg_t' ORDER BY oid",
}  # fmt: skip

# A relation of the catalogs: its columns with their types, `!` after those that are never NULL.
RELATIONS = """
    SELECT n.nspname || '.' || c.relname, c.oid, c.relkind,
           string_agg(a.attname || ' ' || CASE WHEN t.typname = '_pg_statistic' THEN 'text[]'
                                               WHEN t.typnamespace = 11 THEN format_type(t.oid, NULL)
                                               ELSE t.typname END
                      || CASE WHEN a.attnotnull THEN '!' ELSE '' END, ', ' ORDER BY a.attnum)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
    JOIN pg_type t ON t.oid = a.atttypid
    WHERE n.nspname IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'v')
    GROUP BY 1, 2, 3 ORDER BY 1"""
# Those that somebody who is no superuser sees, as the server boots: what is set later depends on the machine.
SETTINGS = """
    SELECT name, boot_val, unit, category, short_desc, extra_desc, context, vartype, min_val, max_val, enumvals
    FROM pg_settings ORDER BY lower(name)"""
KEYWORDS = "SELECT word, catcode, barelabel, catdesc, baredesc FROM pg_get_keywords() ORDER BY word"


def facts(connection: psycopg.Connection) -> dict[str, str]:
    """The files of the package `builtin`, by name."""
    offered = {"offered": sorted(OFFERED)}
    queries = {**QUERIES, "keywords": KEYWORDS, "settings": SETTINGS}
    connection.execute("DROP ROLE IF EXISTS somebody")
    connection.execute("CREATE ROLE somebody")
    connection.execute("SET ROLE somebody")
    found = {
        f"{name}.tsv": _lines(connection.execute(query, offered if "%(offered)s" in query else None))
        for name, query in queries.items()
    }
    rows = connection.execute(RELATIONS).fetchall()
    return found | {"relations.tsv": _text_of(["name", "oid", "kind", "columns"], rows)}


def _lines(cursor: psycopg.Cursor) -> str:
    assert cursor.description is not None
    return _text_of([column.name for column in cursor.description], cursor.fetchall())


def _text_of(names: list[str], rows: Sequence[Sequence[object]]) -> str:
    return "".join("\t".join(map(_text, row)) + "\n" for row in (names, *rows))


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return str(value)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        server = Postgres(Path(folder) / "server")
        server.start()
        try:
            with psycopg.connect(server.url()) as connection:
                for name, text in facts(connection).items():
                    Path(builtin.__file__).with_name(name).write_text(text)
        finally:
            server.stop()
    sys.stdout.write("written\n")

"""The functions that a query may call, by their names in Postgres. What is not here does not exist."""

from __future__ import annotations

import re

from mere.serve.parse.words import words

SCHEMA = "pg"  # of the macros below, in DuckDB

# Those that DuckDB has under the same name, with the same meaning. For lag and lead, `calls` bounds the offset.
SAME = words("""
    abs ceil ceiling floor sign sqrt cbrt exp ln pi radians degrees sin cos tan asin acos atan atan2 cot sinh cosh
    tanh asinh acosh atanh power pow gcd lcm random lower upper length reverse left right ltrim rtrim split_part
    strpos starts_with translate md5 ascii chr concat concat_ws coalesce nullif greatest least count sum avg min max
    stddev stddev_samp stddev_pop variance var_samp var_pop bool_and bool_or string_agg array_agg corr covar_pop
    covar_samp regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy mode
    percentile_cont percentile_disc bit_and bit_or bit_xor any_value row_number rank dense_rank percent_rank
    cume_dist ntile lag lead first_value last_value nth_value now isfinite make_date make_timestamp make_time
    to_json unnest generate_series grouping array
""")

# Those with another name there.
RENAMED = {
    "char_length": "length",
    "character_length": "length",
    "octet_length": "strlen",
    "btrim": "trim",
    "substr": "substring",
    "every": "bool_and",
    "cardinality": "len",
    "array_append": "list_append",
    "array_cat": "list_concat",
    "array_position": "list_position",
    "json_build_object": "json_object",
    "jsonb_build_object": "json_object",
    "json_build_array": "json_array",
    "jsonb_build_array": "json_array",
    "json_array_length": "json_array_length",
    "jsonb_array_length": "json_array_length",
    "to_jsonb": "to_json",
    "row_to_json": "to_json",
    "array_to_json": "to_json",
    "json_agg": "json_group_array",
    "jsonb_agg": "json_group_array",
    "json_object_agg": "json_group_object",
    "jsonb_object_agg": "json_group_object",
    "gen_random_uuid": "uuid",
    "transaction_timestamp": "now",
    "statement_timestamp": "now",
    "clock_timestamp": "now",
}

LOAD = "mere_load"  # (bytes): whether as many may be read at once, likewise
ROOM = "mere_room"  # (bytes): whether there is memory for as many, of a function of Python's
_FREE = 1000  # bytes of a row for which it is not asked

TOO_LONG = "53200:the text would be too long"
TOO_MUCH = "53200:the texts of all rows that are computed at once would be too long"
_TOO_LONG = f"error('{TOO_LONG}')"
_TOO_MANY = "error('53400:the series has too many elements')"

# Macros of our own; `error('22012:…')` carries the SQLSTATE before the colon.
_MACROS = {
    # Division by zero is NULL in DuckDB.
    "divisor(b)": "CASE WHEN b = 0 THEN error('22012:division by zero') ELSE b END",
    "mod(a, b)": "a % CASE WHEN b = 0 THEN error('22012:division by zero') ELSE b END",
    "div(a, b)": "trunc(a / CASE WHEN b = 0 THEN error('22012:division by zero') ELSE b END)",
    "log(x)": "log10(x)",
    "sqrt(x)": "CASE WHEN x < 0 THEN error('2201F:cannot take square root of a negative number') ELSE sqrt(x) END",
    "ln(x)": "CASE WHEN x = 0 THEN error('2201E:cannot take logarithm of zero') WHEN x < 0"
    " THEN error('2201E:cannot take logarithm of a negative number') ELSE ln(x) END",
    # Long texts are not counted against DuckDB's memory before they are made. The check stands in the argument: DuckDB
    # computes what is constant beforehand, and would not wait for a condition around the call.
    "room(n)": f"coalesce(n, 0) <= {_FREE} OR {ROOM}(least(n, 1e18)::BIGINT)",
    "load(n)": f"coalesce(n, 0) <= {_FREE} OR {LOAD}(n::BIGINT)",
    "repeat(s, n)": f"repeat(s, CASE WHEN pg.room(strlen(s) * n::HUGEINT) THEN greatest(n, 0) ELSE {_TOO_LONG}"
    " END::BIGINT)",
    # What it grows by: as often as the one text is in there, by how much the other one is longer.
    "replace(s, a, b)": "replace(CASE WHEN pg.room((strlen(s) - strlen(replace(s, a, '')))::HUGEINT"
    f" * greatest(strlen(b) - strlen(a), 0) / greatest(strlen(a), 1)) THEN s ELSE {_TOO_LONG} END, a, b)",
    # With each match it may have the text before and what is put in its place, and that the text itself some times.
    "regexp_replace(s, p, r, f)": "regexp_replace(CASE WHEN pg.room((strlen(s) + 1)::HUGEINT * strlen(r)"
    f" * CASE WHEN contains(r, chr(92)) THEN strlen(s) + 1 ELSE 1 END) THEN s ELSE {_TOO_LONG} END, p, r, f)",
    "lpad(s, n, p)": "CASE WHEN p = '' THEN left(s, greatest(n, 0)) ELSE lpad(s, CASE WHEN pg.room(n * 4::HUGEINT)"
    f" THEN greatest(n, 0) ELSE {_TOO_LONG} END::INTEGER, p) END",
    "rpad(s, n, p)": "CASE WHEN p = '' THEN left(s, greatest(n, 0)) ELSE rpad(s, CASE WHEN pg.room(n * 4::HUGEINT)"
    f" THEN greatest(n, 0) ELSE {_TOO_LONG} END::INTEGER, p) END",
    "bit_length(s)": "strlen(s) * 8",
    "initcap(s)": "list_aggregate(list_transform(regexp_extract_all(s, '[[:alnum:]À-ɏ]+|[^[:alnum:]À-ɏ]+'),"
    " lambda w: upper(w[1]) || lower(w[2:])), 'string_agg', '')",
    "to_hex(n)": "lower(to_hex(n))",
    "quote_ident(s)": "CASE WHEN regexp_full_match(s, '[a-z_][a-z0-9_$]*') AND s NOT IN (SELECT keyword_name FROM"
    " duckdb_keywords() WHERE keyword_category = 'reserved') THEN s"
    " ELSE '\"' || pg.replace(s, '\"', '\"\"') || '\"' END",
    "quote_literal(s)": "'''' || pg.replace(s::VARCHAR, '''', '''''') || ''''",
    "quote_nullable(s)": "coalesce('''' || pg.replace(s::VARCHAR, '''', '''''') || '''', 'NULL')",
    "typeof(x)": "CASE split_part(typeof(x), '(', 1) WHEN 'INTEGER' THEN 'integer' WHEN 'BIGINT' THEN 'bigint' WHEN"
    " 'SMALLINT' THEN 'smallint' WHEN 'DOUBLE' THEN 'double precision' WHEN 'FLOAT' THEN 'real' WHEN 'DECIMAL' THEN"
    " 'numeric' WHEN 'HUGEINT' THEN 'numeric' WHEN 'VARCHAR' THEN 'text' WHEN 'BLOB' THEN 'bytea' WHEN 'TIMESTAMP' THEN"
    " 'timestamp without time zone' WHEN '\"NULL\"' THEN 'unknown' WHEN 'TIME' THEN 'time without time zone'"
    " ELSE lower(typeof(x)) END",
    "string_to_array(s, d)": "CASE WHEN s = '' THEN []::VARCHAR[] WHEN d = '' THEN [s] ELSE string_split(s, d) END",
    "string_to_array_null(s, d, n)": "list_transform(CASE WHEN s = '' THEN []::VARCHAR[] WHEN d = '' THEN [s]"
    " ELSE string_split(s, d) END, lambda e: nullif(e, n))",
    "array_to_string(a, d)": "CASE WHEN a IS NULL THEN NULL WHEN len(list_filter(a, lambda e: e IS NOT NULL)) = 0"
    f" THEN '' WHEN NOT pg.room(len(a) * strlen(d)::HUGEINT) THEN {_TOO_LONG}"
    " ELSE array_to_string(list_transform(list_filter(a, lambda e: e IS NOT NULL), lambda e: pg.text(e)), d)"
    " END",
    "array_to_string_null(a, d, n)": "CASE WHEN a IS NULL THEN NULL WHEN len(a) = 0 THEN ''"
    f" WHEN NOT pg.room(len(a) * (strlen(d) + strlen(n))::HUGEINT) THEN {_TOO_LONG}"
    " ELSE array_to_string(list_transform(a, lambda e: coalesce(pg.text(e), n)), d) END",
    "array_length(a, n)": "CASE WHEN n = 1 THEN nullif(len(a), 0)::INTEGER END",
    "array_upper(a, n)": "CASE WHEN n = 1 THEN nullif(len(a), 0)::INTEGER END",
    "array_lower(a, n)": "CASE WHEN n = 1 AND len(a) > 0 THEN 1 END",
    "array_ndims(a)": "CASE WHEN len(a) > 0 THEN len(regexp_extract(typeof(a), '(\\[\\])*$')) // 2 END::INTEGER",
    "array_remove(a, v)": "list_filter(a, lambda e: e IS DISTINCT FROM v)",
    # v = ANY(a). What is not found among NULLs may still be there.
    "equals_any(v, a)": "CASE WHEN a IS NULL THEN NULL WHEN len(a) = 0 THEN false WHEN v IS NULL THEN NULL"
    " WHEN list_contains(a, v) THEN true WHEN len(list_filter(a, lambda e: e IS NULL)) > 0 THEN NULL ELSE false END",
    "array_replace(a, v, w)": "list_transform(a, lambda e: CASE WHEN e IS NOT DISTINCT FROM v THEN w ELSE e END)",
    "array_positions(a, v)": "list_filter(list_transform(a, lambda e, i: CASE WHEN e IS NOT DISTINCT FROM v THEN i"
    " END), lambda i: i IS NOT NULL)::INTEGER[]",
    "date_trunc(p, t)": "CASE WHEN typeof(t) = 'DATE' THEN date_trunc(p, t::TIMESTAMP) ELSE date_trunc(p, t) END",
    "age_between(a, b)": "age(a::TIMESTAMP, b::TIMESTAMP)",
    "age_now(b)": "age(current_date::TIMESTAMP, b::TIMESTAMP)",
    "jsonb_typeof(j)": "pg.json_typeof(j)",
    "json_typeof(j)": "CASE json_type(j) WHEN 'OBJECT' THEN 'object' WHEN 'ARRAY' THEN 'array' WHEN 'VARCHAR' THEN"
    " 'string' WHEN 'BOOLEAN' THEN 'boolean' WHEN 'NULL' THEN 'null' WHEN NULL THEN NULL ELSE 'number' END",
    "float_text(s)": "CASE WHEN s = 'nan' THEN 'NaN' WHEN s = 'inf' THEN 'Infinity' WHEN s = '-inf' THEN '-Infinity'"
    " WHEN regexp_full_match(s, '-?[0-9]{16}\\.0') THEN regexp_replace(regexp_replace(s,"
    " '^(-?[0-9])([0-9]{15})\\.0$', '\\1.\\2e+15'), '\\.?0*e', 'e') ELSE regexp_replace(s, '\\.0$', '') END",
    # A value as Postgres writes it, where DuckDB would write it in another way.
    "text(x)": "CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN pg.float_text(x::VARCHAR) WHEN typeof(x) = 'INTERVAL'"
    " THEN replace(replace(x::VARCHAR, 'months', 'mons'), 'month', 'mon') ELSE x::VARCHAR END",
    "substring(s, f, n)": "CASE WHEN n < 0 THEN error('22011:negative substring length not allowed') ELSE"
    " substring(s, greatest(f, 1), greatest(f + n - greatest(f, 1), 0)) END",
    # One more, and DuckDB falls over.
    "row_offset(n)": "CASE WHEN n < -9223372036854775807 THEN -9223372036854775807 ELSE n END",
    "width_bucket(x, a, b, n)": "CASE WHEN x IS NULL OR a IS NULL OR b IS NULL OR n IS NULL THEN NULL WHEN n <= 0 THEN"
    " error('2201G:count must be greater than zero') WHEN a = b THEN"
    " error('2201G:lower bound cannot equal upper bound') WHEN (x < a) = (a < b) AND x <> a THEN 0"
    " WHEN (x >= b) = (a < b) OR x = b THEN n + 1"
    " ELSE floor((x - a) * n / (b - a)) + 1 END::INTEGER",
    "epoch(t)": "epoch_us(t) * 0.000001",
    "truncated(x, n)": "trunc(x * power(10, n)) / power(10, n)",
    # to_char of a number, of which the digits are there already.
    "grouped(i)": "reverse(rtrim(regexp_replace(reverse(i), '([0-9]{3})', '\\1,', 'g'), ','))",
    "filled(s, fill, width)": "CASE WHEN fill THEN lpad(s, width, ' ') ELSE s END",
    "whole_text(i, z, p)": "CASE WHEN z = 0 AND p > 0 AND i = '0' THEN '' ELSE lpad(i, greatest(len(i), z)::INTEGER,"
    " '0') END",
    "fraction_text(f, o, fill)": "CASE WHEN fill THEN f ELSE left(f, o) || rtrim(substring(f, o + 1), '0') END",
    "number_text(s, negative, w, p, z, o, g, fill, width, point)": "CASE WHEN s IS NULL THEN NULL"
    " WHEN len(split_part(s, '.', 1)) > w AND split_part(s, '.', 1) <> '0' THEN CASE WHEN fill THEN ' ' ELSE '' END"
    " || repeat('#', w) || CASE WHEN point THEN '.' || repeat('#', p) ELSE '' END"
    " ELSE pg.filled(CASE WHEN negative AND regexp_matches(s, '[1-9]') THEN '-' ELSE '' END || CASE WHEN g THEN"
    " pg.grouped(pg.whole_text(split_part(s, '.', 1), z, p)) ELSE pg.whole_text(split_part(s, '.', 1), z, p) END ||"
    " CASE WHEN point THEN '.' || pg.fraction_text(split_part(s, '.', 2), o, fill) ELSE '' END, fill, width) END",
    # A series that is a list is made at once, and not counted either: eight bytes an element.
    "series(a, b, step)": "generate_series(a::BIGINT, CASE WHEN NOT pg.room(abs(b::HUGEINT - a::HUGEINT)"
    f" / greatest(abs(step), 1) * 8) THEN {_TOO_MANY} ELSE b END::BIGINT, CASE WHEN step = 0 THEN"
    " error('22023:step size cannot equal zero') ELSE step END::BIGINT)",
    "series_of_times(a, b, step)": "generate_series(a, CASE WHEN NOT pg.room(abs(epoch(b) - epoch(a)) * 8 /"
    f" greatest(abs(epoch(step)), 0.000001)) THEN {_TOO_MANY} ELSE b END, step)",
    # DuckDB tries all ways in which several % can match, one after another: of long texts there are too many.
    "like_pattern(p)": "coalesce(list_aggregate(list_transform(regexp_extract_all(p, '\\\\.|[^\\\\]', 0, 's'),"
    " lambda t: CASE t WHEN '%' THEN '.*' WHEN '_' THEN '.' ELSE regexp_escape(right(t, 1)) END), 'string_agg', ''),"
    " '')",
    # Of a pattern with another escape character, by a regular expression of its pieces.
    "with_backslashes(p, e)": "CASE WHEN p IS NOT NULL THEN coalesce(list_aggregate(list_transform("
    "regexp_extract_all(p, e, 0, 's'), lambda t: CASE WHEN len(t) = 2 THEN chr(92) || right(t, 1)"
    " WHEN t = chr(92) THEN chr(92) || chr(92) ELSE t END), 'string_agg', ''), '') END",
    "like(s, p)": "CASE WHEN p IS NULL THEN NULL WHEN strlen(s) <= 300 AND strlen(p) - strlen(replace(p, '%', '')) <= 2"
    " THEN s LIKE p ESCAPE '\\' ELSE regexp_full_match(s, pg.like_pattern(p), 's') END",
    # A regular expression that is not known beforehand. Each repetition makes it as many times as large.
    "pattern(p)": "CASE WHEN strlen(p) > 300 OR regexp_matches(p, '\\{[0-9,]*[0-9]{3}') THEN"
    " error('54001:the regular expression is too complex') ELSE p END",
    # Texts in one: as many as there are, whatever their types.
    "bytes(x)": "strlen(x::VARCHAR)",
}

# A macro that calls another is made after it.
_FIRST = (
    "room(n)", "load(n)", "bytes(x)", "replace(s, a, b)", "like_pattern(p)",
    "float_text(s)", "text(x)", "json_typeof(j)", "grouped(i)", "whole_text(i, z, p)", "fraction_text(f, o, fill)",
    "filled(s, fill, width)",
)  # fmt: skip

MACROS = tuple(
    f"CREATE MACRO {SCHEMA}.{signature} AS {_MACROS[signature]}"
    for signature in (*_FIRST, *(each for each in _MACROS if each not in _FIRST))
)


def _uses(signature: str) -> int:
    """How often a macro repeats the argument that it repeats most: calls in calls multiply that."""
    body = _expanded(_MACROS[signature])
    return max(len(re.findall(rf"\b{name}\b", body)) for name in _parameters(signature))


def _expanded(body: str) -> str:
    """With the bodies of the macros that it calls in place of the calls."""
    while (found := re.search(rf"\b{SCHEMA}\.(\w+)\(", body)) is not None:
        arguments, end = _arguments(body, found.end())
        signature = next(each for each in _MACROS if each.startswith(f"{found[1]}("))
        given = dict(zip(_parameters(signature), arguments, strict=True))
        inner = re.sub(r"\w+", lambda word, given=given: given.get(word[0], word[0]), _MACROS[signature])  # type: ignore[misc]
        body = f"{body[: found.start()]}({inner}){body[end:]}"
    return body


def _parameters(signature: str) -> list[str]:
    return re.findall(r"\w+", signature.partition("(")[2])


def _arguments(text: str, start: int) -> tuple[list[str], int]:
    """Of a call, from behind its parenthesis on, and where it ends."""
    found, depth, at = [""], 0, start
    for each in re.finditer(r"'(?:[^']|'')*'|.", text[start:], re.DOTALL):
        at = start + each.end()
        depth += (each[0] in "([") - (each[0] in ")]")
        if depth < 0:
            break
        if each[0] == "," and not depth:
            found.append("")
        else:
            found[-1] += each[0]
    return found, at


USES = {signature.partition("(")[0]: _uses(signature) for signature in _MACROS}

# Called by their own names, and answered by the macro of that name.
OURS = words("""
    mod div log sqrt ln repeat lpad rpad bit_length initcap to_hex quote_ident quote_literal quote_nullable
    string_to_array array_to_string array_length array_upper array_lower array_ndims array_remove array_replace
    array_positions date_trunc json_typeof jsonb_typeof width_bucket
""")

# Rewritten in the tree, by `dialect`.
REWRITTEN = words("""
    replace concat concat_ws
    pg_typeof to_char to_date to_timestamp date_part age regexp_replace regexp_match regexp_matches
    regexp_split_to_array regexp_split_to_table regexp_count regexp_like regexp_substr format round trunc
    array_prepend make_interval num_nulls num_nonnulls substring string_to_table json_extract_path
    json_extract_path_text jsonb_extract_path jsonb_extract_path_text encode decode date date_bin text
    json_array_elements jsonb_array_elements json_array_elements_text jsonb_array_elements_text json_object_keys
    jsonb_object_keys
""")

# Answered from the session, before DuckDB sees the query.
SESSION = words("""
    mere_commit current_database current_catalog current_schema current_schemas current_user session_user user
    current_role version pg_backend_pid current_setting set_config inet_server_addr inet_server_port
    inet_client_addr inet_client_port txid_current pg_current_xact_id pg_is_in_recovery pg_postmaster_start_time
    pg_client_encoding txid_current_if_assigned pg_is_wal_replay_paused getdatabaseencoding pg_cancel_backend
    pg_terminate_backend
""")

# Functions of Python's that DuckDB is given.
SIGNAL = "mere_signal"  # (user, process, whether to end it)
SET = "mere_set"  # (the session's number, name, value, whether it is local)

# They return rows, and may stand in FROM.
TABLES = words("""
    generate_series unnest string_to_table regexp_split_to_table regexp_matches json_array_elements
    jsonb_array_elements json_array_elements_text jsonb_array_elements_text json_object_keys jsonb_object_keys
""")

SCALARS = SAME | RENAMED.keys() | OURS | REWRITTEN | SESSION

# Those of DuckDB that the rewritten tree may call. The second look of `guard` lets no other pass.
DUCKDB = (
    SAME
    | frozenset(RENAMED.values())
    | words("""
    strftime strptime to_timestamp date_part age regexp_replace regexp_extract regexp_extract_all regexp_matches
    string_split_regex round trunc list_prepend list_transform list_filter list_distinct array_to_string len
    json_extract json_extract_string json_each json_keys json_transform from_json range epoch time_bucket to_years
    regexp_escape
    to_months to_days to_hours to_minutes to_seconds to_microseconds to_weeks encode decode hex unhex base64
    from_base64 substring lpad rpad repeat replace strlen trim date_trunc mod bit_length list_slice list_has_all
    list_has_any list_contains count_star position overlay like_escape ilike_escape not_like_escape not_ilike_escape
    get_current_timestamp today current_date get_current_time current_localtime current_localtimestamp
    list_aggregate concat list_sort factorial divide add subtract multiply date_diff datediff day month year hour
    minute second list_extract array_slice quantile_cont quantile_disc list first last arbitrary json_contains
    json_exists array_extract struct_extract
""")
    | {SIGNAL, SET, ROOM, LOAD}
)

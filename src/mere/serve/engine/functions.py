"""The functions that a query may call, by their names in Postgres. Any other does not exist."""

from __future__ import annotations

from mere.serve.parse.words import words

SCHEMA = "pg"  # of our own macros, in DuckDB

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

TOO_LONG = "53200:the text would be too long"
TOO_MUCH = "53200:the texts of all rows that are computed at once would be too long"

# Called by their own names, and answered by the macro of that name.
OURS = words("""
    mod div log sqrt ln repeat lpad rpad bit_length initcap to_hex quote_ident quote_literal quote_nullable
    string_to_array array_to_string array_length array_upper array_lower array_ndims array_remove array_replace
    array_append array_cat array_position array_positions array_prepend date_trunc json_typeof jsonb_typeof width_bucket
""")

# Rewritten in the tree, by `dialect`.
REWRITTEN = words("""
    replace concat concat_ws
    pg_typeof to_char to_date to_timestamp date_part age regexp_replace regexp_match regexp_matches
    regexp_split_to_array regexp_split_to_table regexp_count regexp_like regexp_substr format round trunc
    make_interval num_nulls num_nonnulls substring string_to_table json_extract_path
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
    pg_terminate_backend pg_advisory_unlock_all
""")

# Functions of Python's that DuckDB is given.
SIGNAL = "mere_signal"  # (user, process, whether to end it)
SET = "mere_set"  # (the session's number, name, value, whether it is local)

# Those of DuckDB's that tell the time without saying so, and ours that do something.
VARYING = frozenset({"age", SIGNAL, SET})

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
    string_split_regex round trunc list_concat list_transform list_filter list_distinct array_to_string len
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

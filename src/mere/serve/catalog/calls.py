"""Functions of pg_catalog as expressions over its relations.

Each is written in Postgres's SQL, $1 being its first argument; `rewrite` puts it where the function was called. The
relations whose names begin with mere_ are those of `hidden`. What they need of the session, current_schemas, is left to
whoever knows it.
"""

from __future__ import annotations

from sqlglot import exp

from mere.serve.builtin.names import TEMPORARY
from mere.serve.catalog import privileges, regtypes
from mere.serve.catalog.regtypes import identifiers
from mere.serve.catalog.template import VISIBLE, Arguments, parsed, template

_NOTHING = "CAST(NULL AS text)"
_MODIFIED = """
    CASE WHEN $2 IS NULL OR $2 < 0 THEN mere_words
         WHEN mere_base = 'numeric' AND $2 >= 4
         THEN 'numeric(' || (($2 - 4) >> 16) || ',' || (($2 - 4) & 65535) || ')' || mere_brackets
         WHEN mere_base IN ('character varying', 'character') THEN mere_base || '(' || ($2 - 4) || ')' || mere_brackets
         WHEN mere_base LIKE 'timestamp %' THEN 'timestamp(' || $2 || ')' || substr(mere_words, 10)
         WHEN mere_base LIKE 'time %' THEN 'time(' || $2 || ')' || substr(mere_words, 5)
         ELSE mere_words END"""
_SIZE = "(SELECT mere_size FROM pg_catalog.mere_relations WHERE mere_oid = $1)"
_DEFINITION = "(SELECT mere_definition FROM pg_catalog.mere_definitions WHERE mere_oid = $1 AND mere_part = {})"
_COMMENT = "(SELECT min(mere_comment) FROM pg_catalog.mere_comments WHERE mere_oid = $1 AND {})"
_FUNCTION = "(SELECT {} FROM pg_catalog.mere_functions WHERE mere_oid = $1)"
_ROLE = "(SELECT mere_name FROM pg_catalog.mere_roles WHERE mere_oid = $1)"
_PRETTY = """
    CASE WHEN abs($1) < 10240 THEN $1 || ' bytes'
         WHEN abs($1) < 10485248 THEN CAST(round($1 / 1024.0) AS bigint) || ' kB'
         WHEN abs($1) < 10736893952 THEN CAST(round($1 / 1048576.0) AS bigint) || ' MB'
         WHEN abs($1) < 10994579406848 THEN CAST(round($1 / 1073741824.0) AS bigint) || ' GB'
         ELSE CAST(round($1 / 1099511627776.0) AS bigint) || ' TB' END"""

IN_PATH = "mere_is_in_path"  # whether a relation's schema is in the search path

# By name and the number of arguments; without a number, however many there are. The relations and their columns have
# names of their own, and no aliases: an argument such as `oid` means what it meant outside.
_TEMPLATES = {
    "format_type": f"""
        CASE WHEN $1 = 0 THEN '-' WHEN $1 IS NOT NULL
             THEN coalesce((SELECT {_MODIFIED} FROM pg_catalog.mere_types WHERE mere_oid = $1), '???') END""",
    "pg_get_userbyid": f"CASE WHEN $1 IS NOT NULL THEN coalesce({_ROLE}, 'unknown (OID=' || $1 || ')') END",
    "pg_table_is_visible": f"(SELECT {VISIBLE} FROM pg_catalog.mere_relations mere_one WHERE mere_one.mere_oid = $1)",
    IN_PATH: "(SELECT mere_schema = ANY(current_schemas(true)) FROM pg_catalog.mere_relations WHERE mere_oid = $1)",
    "pg_type_is_visible": "(SELECT mere_schema = ANY(current_schemas(true)) FROM pg_catalog.mere_types"
    " WHERE mere_oid = $1)",
    "obj_description 1": _COMMENT.format("mere_part = 0"),
    "obj_description 2": _COMMENT.format("mere_part = 0 AND mere_class = $2"),
    "col_description": _COMMENT.format("mere_part = $2 AND mere_class = 'pg_class'"),
    "pg_get_viewdef": _DEFINITION.format(0),
    "pg_get_constraintdef": _DEFINITION.format(0),
    "pg_get_indexdef 1": _DEFINITION.format(0),
    # Pretty: without the schema of a table that is found without it.
    "pg_get_indexdef": f"""
        (SELECT CASE WHEN $3 AND {VISIBLE} THEN mere_short ELSE mere_definition END
         FROM pg_catalog.mere_definitions mere_one WHERE mere_one.mere_oid = $1 AND mere_one.mere_part = $2)""",
    "pg_get_function_arguments": _FUNCTION.format("mere_arguments"),
    "pg_get_function_identity_arguments": _FUNCTION.format("mere_arguments"),
    "pg_get_function_result": _FUNCTION.format("mere_result"),
    "pg_relation_size": _SIZE,
    "pg_table_size": _SIZE,
    "pg_total_relation_size": _SIZE,
    "pg_indexes_size": "CASE WHEN $1 IS NOT NULL THEN CAST(0 AS bigint) END",
    "pg_database_size": "(SELECT CAST(sum(mere_size) AS bigint) FROM pg_catalog.mere_relations"
    " WHERE CAST($1 AS text) = current_database())",
    "pg_size_pretty": _PRETTY,
    "pg_encoding_to_char": "CASE $1 WHEN 6 THEN 'UTF8' WHEN 0 THEN 'SQL_ASCII' ELSE '' END",
    "pg_char_to_encoding": "CASE upper($1) WHEN 'UTF8' THEN 6 WHEN 'SQL_ASCII' THEN 0 ELSE -1 END",
    "pg_column_is_updatable": "false",
    "pg_relation_is_updatable": "0",
    "pg_relation_is_publishable": "false",
    "pg_is_other_temp_schema": "false",
    "pg_my_temp_schema": "coalesce((SELECT min(mere_oid) FROM pg_catalog.mere_schemas"
    f" WHERE mere_name = '{TEMPORARY}'), 0)",
    "pg_index_column_has_property": "lower($3) IN ('asc', 'orderable', 'nulls_last')",
    "pg_indexam_has_property": "lower($2) IN ('can_order', 'can_unique', 'can_multi_col', 'can_include')",
    "pg_index_has_property": "lower($2) IN ('clusterable', 'index_scan', 'bitmap_scan', 'backward_scan')",
    "pg_stat_get_numscans": "CAST(0 AS bigint)",
    "pg_tablespace_location": "''",
    "pg_tablespace_size": "CAST(0 AS bigint)",
    "pg_filenode_relation": "CAST(NULL AS bigint)",
    "pg_get_expr": "CAST($1 AS text)",
    "pg_conf_load_time": "now()",
}
_ALWAYS = (
    "pg_function_is_visible", "pg_operator_is_visible", "pg_opclass_is_visible", "pg_opfamily_is_visible",
    "pg_collation_is_visible", "pg_conversion_is_visible", "pg_statistics_obj_is_visible", "pg_ts_config_is_visible",
    "pg_ts_dict_is_visible", "pg_ts_parser_is_visible", "pg_ts_template_is_visible", "pg_has_role",
)  # fmt: skip
_NEVER_ANYTHING = (
    "shobj_description", "pg_get_functiondef", "pg_get_function_arg_default", "pg_get_function_sqlbody",
    "pg_get_triggerdef", "pg_get_ruledef", "pg_get_partkeydef", "pg_get_partition_constraintdef",
    "pg_get_statisticsobjdef", "pg_get_statisticsobjdef_columns", "pg_get_statisticsobjdef_expressions",
    "pg_get_serial_sequence", "pg_get_replica_identity_index", "pg_relation_filepath", "pg_describe_object",
)  # fmt: skip

# Functions that return rows and stand in FROM: a relation with the same ones, or columns without any.
TABLES = {
    "pg_get_keywords": "pg_catalog.mere_keywords",
    "pg_available_extensions": "pg_catalog.pg_available_extensions",
    "pg_available_extension_versions": "pg_catalog.pg_available_extension_versions",
    "pg_show_all_settings": "pg_catalog.pg_settings",
    "pg_timezone_names": "pg_catalog.pg_timezone_names",
}
_EMPTY = {
    "aclexplode": "CAST(NULL AS oid) AS grantor, CAST(NULL AS oid) AS grantee, CAST(NULL AS text) AS privilege_type,"
    " CAST(NULL AS boolean) AS is_grantable",
    "pg_options_to_table": "CAST(NULL AS text) AS option_name, CAST(NULL AS text) AS option_value",
    "pg_partition_ancestors": "CAST(NULL AS oid) AS relid",
    "pg_partition_tree": "CAST(NULL AS oid) AS relid, CAST(NULL AS oid) AS parentrelid,"
    " CAST(NULL AS boolean) AS isleaf, CAST(NULL AS integer) AS level",
    "pg_get_publication_tables": "CAST(NULL AS oid) AS pubid, CAST(NULL AS oid) AS relid",
}
_SETS = frozenset({"_pg_expandarray", "generate_subscripts", *_EMPTY})

SCALARS = frozenset(
    {name.partition(" ")[0] for name in _TEMPLATES}
    | {*_ALWAYS, *_NEVER_ANYTHING, *privileges.KINDS, *_SETS, "acldefault", *regtypes.FUNCTIONS}
)
FUNCTIONS = SCALARS | TABLES.keys()


def call(name: str, arguments: Arguments) -> exp.Expr | None:
    """What stands for a call; None if the function is not one of the catalogs'."""
    if name in privileges.KINDS:
        return _privilege(name, arguments)
    if name in _ALWAYS:
        return exp.true()
    if name in _NEVER_ANYTHING:
        return template(_NOTHING, ())
    if name == "acldefault":
        return template("CAST(NULL AS text[])", ())
    if name in _EMPTY:  # in a list of results: no rows; one of several columns is asked for as (d).grantee
        row = "mere_none" if "," in _EMPTY[name] else _EMPTY[name].rpartition(" ")[2]
        return template(f"unnest(ARRAY(SELECT {row} FROM (SELECT {_EMPTY[name]} WHERE false) mere_none))", ())
    text = _TEMPLATES.get(f"{name} {len(arguments)}", _TEMPLATES.get(name))
    return template(text, arguments) if text else None


def setting(name: exp.Expr) -> exp.Expr:
    """One that is named by what a query finds, and not by the query."""
    return template("(SELECT mere_value FROM pg_catalog.mere_settings WHERE mere_name = lower($1))", [name])


def rows(name: str) -> exp.Expr | None:
    """What stands for a function in FROM, without its alias."""
    if name in TABLES:
        schema, _, relation = TABLES[name].partition(".")
        return exp.table_(relation, db=schema)
    if name in _EMPTY:
        return exp.Subquery(this=parsed(f"SELECT {_EMPTY[name]} WHERE false").copy())
    return None


# Of what a name is put together; and not, for instance, what makes one value of many rows, or many of one.
_PIECES = (exp.DPipe, exp.Paren, exp.Column, exp.Identifier, exp.Literal, exp.Cast, exp.DataType)
_JOINING = frozenset({"replace", "quote_ident", "concat", "lower"})


def _is_put_together(thing: exp.Expr) -> bool:
    if isinstance(thing, exp.Column | exp.Literal):
        return False
    return all(
        isinstance(each, _PIECES) or (isinstance(each, exp.Anonymous) and each.name.lower() in _JOINING)
        for each in thing.walk()
    )


def _privilege(name: str, arguments: Arguments) -> exp.Expr:
    kind, at, wanted = privileges.KINDS[name], privileges.thing_at(name, len(arguments)), arguments[-1]
    thing = arguments[at]
    if isinstance(thing, exp.Literal) and thing.is_string and kind.relation == "mere_relations":
        thing = exp.Literal.string(".".join(identifiers(thing.name)[-2:]))
    if isinstance(wanted, exp.Literal) and wanted.is_string:
        held: exp.Expr = exp.Boolean(this=kind.says(wanted.name))
    else:
        held = template(privileges.dynamic(kind, "$1"), [wanted])
    text = privileges.template(name, len(arguments), VISIBLE)
    if not _is_put_together(thing):
        return template(text, [*arguments[:at], thing, *arguments[at + 1 : -1], held])
    # Computed once: it stands in the text a dozen times, in queries within queries, which took seconds to plan.
    asked = exp.column("mere_thing", table="mere_asked")
    said = template(text, [*arguments[:at], asked, *arguments[at + 1 : -1], held])
    return template("(SELECT $1 FROM (SELECT $2 AS mere_thing) AS mere_asked)", [said, thing])

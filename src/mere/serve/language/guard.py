"""What a query may contain. Anything not listed here is refused: DuckDB has no privileges of its own.

It is checked twice. First the tree of what the client wrote, node by node and function by function. Then the SQL that
DuckDB gets, by DuckDB's own parser: whatever the two read differently, no other table, file or function can be in it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from mere.names import near
from mere.serve.access import limits
from mere.serve.catalog.calls import FUNCTIONS
from mere.serve.catalog.rewrite import is_array_of_rows
from mere.serve.engine import functions, macros
from mere.serve.language.mend import shared
from mere.serve.parse.words import words
from mere.serve.protocol.port import PgError

if TYPE_CHECKING:
    from mere.serve.engine.engine import Engine

_NODES = words("""
    concat select from join where group having order ordered limit offset fetch limitoptions distinct with cte
    tablealias table subquery union except intersect values tuple lateral unnest window windowspec groupingsets cube
    rollup filter withingroup star column identifier alias paren literal boolean null parameter var datatype
    datatypeparam cast interval case if in between like ilike similarto escape regexplike regexpilike is not and or
    eq neq gt gte lt lte nullsafeeq nullsafeneq add sub mul div mod pow neg dpipe bitwiseand bitwiseor bitwisexor
    bitwisenot bitwiseleftshift bitwiserightshift exists any all array bracket slice dot anonymous attimezone
    extract substring strposition trim overlay currentdate currenttime currenttimestamp localtime localtimestamp
    currentuser sessionuser currentrole currentcatalog currentschema collate operator arraycontainsall
    arraycontainedby arrayoverlaps jsonextract jsonextractscalar jsonbextract jsonbextractscalar jsonbcontains
    jsonbcontainsanytopkeys jsonpath jsonpathroot jsonpathkey jsonpathsubscript jsonpathpart unicodestring
    bytestring rawstring hexstring bitstring national kwarg overlaps intervalspan sqrt cbrt startswith variadic
    aliases propertyeq objectidentifier version
""")
_WRITES = {
    "insert": "INSERT", "update": "UPDATE", "delete": "DELETE", "merge": "MERGE", "create": "CREATE TABLE",
    "drop": "DROP TABLE", "alter": "ALTER TABLE", "truncatetable": "TRUNCATE", "into": "SELECT INTO",
    "lock": "SELECT FOR UPDATE", "copy": "COPY FROM",
}  # fmt: skip

# Functions of Postgres that nobody may call here.
_DENIED = words("""
    pg_read_file pg_read_binary_file pg_ls_dir pg_ls_logdir pg_ls_waldir pg_ls_tmpdir pg_stat_file lo_import
    lo_export lo_get lo_put lo_create lo_creat lo_unlink lo_from_bytea pg_reload_conf pg_rotate_logfile
    pg_sleep pg_sleep_for pg_sleep_until pg_advisory_lock pg_advisory_unlock
    pg_try_advisory_lock pg_advisory_xact_lock pg_switch_wal pg_create_restore_point
    pg_file_write pg_logdir_ls dblink dblink_exec query_to_xml table_to_xml database_to_xml schema_to_xml
    cursor_to_xml query_to_xmlschema pg_promote pg_logical_emit_message pg_create_logical_replication_slot
    pg_drop_replication_slot pg_notify
""")
OF_CATALOG = frozenset(FUNCTIONS)  # those that the catalogs answer, over their own relations
_SEQUENCES = frozenset({"nextval", "setval", "currval", "lastval"})
MOST_NODES = 100_000
MOST_COLUMNS = 1664  # as in Postgres
MOST_JOINS = 60  # DuckDB plans more of them for seconds, and cannot be interrupted meanwhile

_SUBQUERY = 500  # nodes that DuckDB plans as long for as for a subquery in an expression
_RELATIONS = (exp.From, exp.Join, exp.Lateral, exp.SetOperation)


def check(tree: exp.Expr) -> None:
    """PgError, unless the query reads and does nothing else."""
    joins = 0
    for number, node in enumerate(tree.walk()):
        limits.go_on()
        if number > MOST_NODES:
            raise PgError("54000", "the statement is too long")
        check_node(node)
        joins += isinstance(node, exp.Join)
        if isinstance(node, exp.Select) and len(node.expressions) > MOST_COLUMNS:
            raise PgError("54011", f"target lists can have at most {MOST_COLUMNS} entries")
    if joins > MOST_JOINS:
        raise PgError("54001", f"the statement joins too many tables: {joins}, of at most {MOST_JOINS}")
    if not isinstance(tree, exp.Query | exp.Values | exp.Subquery):
        raise PgError("42601", "this is not a query")
    _check_growth(tree)


def _check_growth(tree: exp.Expr) -> None:
    """Calls become expressions that repeat their arguments: in each other, they would grow beyond all measure."""
    sizes: dict[int, int] = {}
    for node in reversed(list(tree.walk())):
        inner = sum(sizes.get(id(each), 1) for each in node.iter_expressions())
        weight = _SUBQUERY if isinstance(node, exp.Subquery) and not isinstance(node.parent, _RELATIONS) else 1
        sizes[id(node)] = weight + inner * _repeats(node)
        if sizes[id(node)] > MOST_NODES:
            raise PgError("54001", "the statement's calls are nested too deeply", position=position(node))


def shrinks(values: Sequence[exp.Expr]) -> bool:
    """Whether replace(…) makes no text longer, as can be told by its looks."""
    literal = len(values) == 3 and values[1].is_string and values[2].is_string
    return literal and len(values[1].name.encode()) >= len(values[2].name.encode())


def _repeats(node: exp.Expr) -> int:
    if isinstance(node, exp.Anonymous):
        name = function_name(node)
        if name == "replace" and shrinks(node.expressions):
            return 1
        if name == "array_to_string" and is_array_of_rows(node.expressions[0]):
            return 1
        if name in OF_CATALOG:
            return 10
        return macros.USES.get(name, 3 if name in functions.REWRITTEN else 1)
    if isinstance(node, exp.EQ | exp.NEQ) and isinstance(node.expression, exp.Any | exp.All):
        return macros.USES["equals_any"]
    if isinstance(node, exp.ArrayContainsAll | exp.ArrayContainedBy | exp.ArrayOverlaps):
        return macros.USES["array_contains"]
    if isinstance(node, exp.Cast):
        return macros.USES["text"] if node.args["to"].is_type(*exp.DataType.TEXT_TYPES) else 1
    if isinstance(node, exp.DPipe):
        return 1 if isinstance(node.parent, exp.DPipe) else macros.USES["room"] + 1
    if isinstance(node, exp.Like | exp.ILike):
        return macros.USES["like"]
    if isinstance(node, exp.Subquery):
        return macros.USES["load"] + 1 if _is_read(node) else 1
    return 2 if isinstance(node, exp.Div | exp.Mod) else 1


def _is_read(node: exp.Expr) -> bool:
    """Whether a function reads what it gives: then its length is asked for first."""
    around = node.parent
    while around is not None and not isinstance(around, exp.Query):
        if shared.reads(around):
            return True
        around = around.parent
    return False


def check_node(node: exp.Expr) -> None:
    if node.key in _WRITES:
        raise read_only(_WRITES[node.key], position(node) - 1)
    if isinstance(node, exp.Anonymous):
        _check_function(node)
    elif isinstance(node, exp.Parameter):
        if not isinstance(node.this, exp.Literal) or not node.name.isdigit() or not 0 < int(node.name) <= 65_535:
            raise PgError("42601", f'syntax error at or near "{node.sql()}"')
    elif isinstance(node, exp.LimitOptions) and (node.args.get("with_ties") or node.args.get("percent")):
        raise PgError("0A000", "FETCH FIRST … WITH TIES is not supported")
    elif isinstance(node, exp.Version) and not _is_of_table(node.parent):
        raise PgError("42601", "FOR … AS OF does not stand after the name of a table", position=position(node))
    elif isinstance(node, exp.Placeholder):
        raise PgError("42601", 'syntax error at or near "?"', hint="Parameters are written $1, $2.")
    elif node.key not in _NODES:
        raise PgError("0A000", f"{_shown(node)} is not supported", position=position(node))


def _is_of_table(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier)


def _check_function(node: exp.Anonymous) -> None:
    name = function_name(node)
    schema = node.parent.this if isinstance(node.parent, exp.Dot) and node.parent.expression is node else None
    if schema is not None and schema.name.lower() not in ("pg_catalog", "information_schema"):
        raise PgError("3F000", f'schema "{schema.name}" does not exist', position=position(schema))
    if name in _DENIED:
        raise PgError("42501", f"permission denied for function {name}", position=position(node))
    if name in _SEQUENCES:
        raise read_only(f"{name}()", position(node) - 1)
    if name not in allowed():
        raise PgError(
            "42883",
            f"function {name} does not exist",
            hint=near(name, allowed()).strip() or "No function matches the given name.",
            position=position(node),
        )


def allowed() -> Collection[str]:
    return functions.SCALARS | functions.TABLES | OF_CATALOG


def function_name(node: exp.Anonymous) -> str:
    """In lower case, unless it was quoted."""
    if isinstance(node.this, exp.Identifier):
        name: str = node.this.name
        return name if node.this.quoted else name.lower()
    return str(node.this).lower()


def position(node: exp.Expr) -> int:
    """Of the first character of the node, from 1 on; 0 where it is not known."""
    for each in node.walk():
        if (start := each.meta.get("start")) is not None:
            return int(start) + 1
    return 0


def read_only(verb: str, start: int) -> PgError:
    return PgError(
        "25006",
        f"cannot execute {verb} in a read-only transaction",
        hint="The gateway only reads. Write to the lake with Spark or PyIceberg, on a branch.",
        position=start + 1,
    )


def _shown(node: exp.Expr) -> str:
    return type(node).__name__.upper()


# The second look, at what DuckDB will run.

# What no expression of DuckDB may name, however it came there.
WITH = "with "  # begins the names that WITH gets in DuckDB, which no file and no table has
_TABLE_FUNCTIONS = frozenset({"generate_series", "range", "unnest", "json_each", "values"})
_OPERATORS = words("""
    + - * / // % ^ ** ^@ || & | << >> ~ ! ~~ !~~ ~~* !~~* ~~~ @ && @> <@ -> ->> <-> <=> not_like_escape like_escape
    ilike_escape not_ilike_escape regexp_full_match xor list_value array_extract array_slice struct_pack row
    struct_extract list_contains list_has_all list_has_any constant_or_null error typeof timezone
""")


def confirm(engine: Engine, sql: str, tables: Collection[str]) -> frozenset[str]:
    """PgError, if DuckDB reads anything in it but a query of these tables (`schema.name`) and allowed functions. What
    it calls, and the columns that may be calls."""
    with closing(engine.cursor()) as cursor:
        (text,) = cursor.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()[0]
    found = json.loads(text)
    if found.get("error"):
        message = found.get("error_message", "syntax error")
        raise PgError("54001" if "expression depth" in message else "42601", message)
    if len(found["statements"]) != 1:
        raise PgError("42601", "cannot insert multiple commands into a prepared statement")
    called: set[str] = set()
    for node in _nodes(found["statements"]):
        limits.go_on()
        _confirm_node(node, tables)
        called.update(_called(node))
    return frozenset(called)


def _called(node: dict[str, Any]) -> Iterator[str]:
    """Of a column, only a name that DuckDB takes for a function where there is no such column."""
    if isinstance(name := node.get("function_name"), str):
        yield f"{functions.SCHEMA}.{name}" if node.get("schema") == functions.SCHEMA else name.lower()
    if node.get("type") == "COLUMN_REF":
        yield from (name.lower() for name in node.get("column_names", ())[-1:] if name.lower() in _WITHOUT_BRACKETS)


_WITHOUT_BRACKETS = words("""
    current_date current_time current_timestamp localtime localtimestamp today now current_user session_user user
    current_role current_catalog current_schema
""")


def _confirm_node(node: dict[str, Any], tables: Collection[str]) -> None:
    kind = node.get("type")
    if kind == "BASE_TABLE":
        table = f"{node.get('schema_name')}.{node.get('table_name')}"
        is_with = table.startswith(f".{WITH}")
        if (table not in tables and not is_with) or node.get("catalog_name") not in ("", "memory"):
            raise PgError("42501", "permission denied for a relation")
    name = node.get("function_name")
    if isinstance(name, str) and not _is_known(name.lower(), node):
        raise PgError("42501", f"permission denied for function {name}")
    if kind == "TABLE_FUNCTION":
        function = node.get("function", {})
        if function.get("function_name", "").lower() not in _TABLE_FUNCTIONS:
            raise PgError("42501", f"permission denied for function {function.get('function_name')}")
    if isinstance(kind, str) and kind in _NEVER:
        raise PgError("0A000", f"{kind} is not supported")


_NEVER = frozenset({"PIVOT", "SHOW_REF", "COLUMN_DATA", "DELIM_GET", "BOUND_TABLE_REF", "COPY", "QUERY_NODE_INSERT"})


def _is_known(name: str, node: dict[str, Any]) -> bool:
    if node.get("schema") == functions.SCHEMA or name in _OPERATORS or name in functions.DUCKDB:
        return True
    return node.get("class") == "WINDOW" and name in functions.SAME


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            yield each
            pending.extend(each.values())
        elif isinstance(each, list):
            pending.extend(each)

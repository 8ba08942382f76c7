"""The functions of pg_catalog and the types that are numbers and look like names, compared with a real Postgres."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

Pair = tuple[psycopg.Connection, psycopg.Connection]


@pytest.fixture(scope="module")
def both(shop_in_lake: str, shop_in_postgres: str) -> Iterator[Pair]:
    with (
        psycopg.connect(shop_in_lake, autocommit=True) as ours,
        psycopg.connect(shop_in_postgres, autocommit=True) as theirs,
    ):
        yield ours, theirs


@pytest.fixture(params=["public", "gold", "silver, gold", "gold, silver"])
def path(request: pytest.FixtureRequest, both: Pair) -> Iterator[None]:
    for connection in both:
        connection.execute(f"SET search_path = {request.param}")
    yield
    for connection in both:
        connection.execute("RESET search_path")


def _same(both: Pair, query: str) -> None:
    ours, theirs = (connection.execute(query).fetchall() for connection in both)
    assert ours == theirs
    assert theirs


@pytest.mark.parametrize(
    "expression",
    [
        "format_type(1700, 655366)",
        "format_type(1700, -1)",
        "format_type(1231, 655366)",
        "format_type(1043, 24)",
        "format_type(1042, 5)",
        "format_type(1015, 24)",
        "format_type(1114, 3)",
        "format_type(1184, 0)",
        "format_type(1083, 6)",
        "format_type(1185, 2)",
        "format_type(23, NULL)",
        "format_type(1007, -1)",
        "format_type(18, NULL)",
        "format_type(22, NULL)",
        "format_type(0, NULL)",
        "format_type(4294967, NULL)",
        "format_type(NULL, 1)",
        "pg_size_pretty(0::bigint)",
        "pg_size_pretty(10239::bigint)",
        "pg_size_pretty(10240::bigint)",
        "pg_size_pretty(123456789::bigint)",
        "pg_size_pretty(98765432109876::bigint)",
        "pg_size_pretty((-20480)::bigint)",
        "pg_encoding_to_char(6)",
        "pg_get_userbyid(4294967)",
        "obj_description('gold.orders'::regclass)",
        "obj_description('gold.orders'::regclass, 'pg_class')",
        "obj_description('gold.orders'::regclass, 'pg_proc')",
        "obj_description('gold'::regnamespace, 'pg_namespace')",
        "col_description('gold.orders'::regclass, 4)",
        "col_description('gold.orders'::regclass, 1)",
        "shobj_description(99, 'pg_database')",
        "has_table_privilege('gold.orders', 'SELECT')",
        "has_table_privilege('mere', 'gold.orders', 'select, update')",
        "has_schema_privilege('gold', 'usage')",
        "pg_has_role('mere', 'usage')",
        "pg_get_constraintdef((SELECT oid FROM pg_constraint WHERE conname = 'orders_pkey'))",
        "pg_get_indexdef('gold.orders_pkey'::regclass)",
        "pg_get_indexdef('gold.orders_pkey'::regclass, 2, false)",
        "pg_get_viewdef('gold.orders'::regclass) IS NULL",
        "'pg_class'::regclass::oid",
        "'pg_catalog.pg_class'::regclass::int",
        "'pg_type'::regclass",
        "1259::regclass",
        "'gold.orders'::regclass",
        "'GOLD.Orders'::regclass::text",
        "'silver.\"Odd \"\"Name\"\" x\"'::regclass::text",
        "('gold' || '.orders')::regclass::text",
        "to_regclass('gold.orders')::text",
        "to_regclass('gold.nothing')",
        "0::regclass",
        "'int4'::regtype",
        "'integer'::regtype::oid",
        "1700::regtype::text",
        "1009::regtype",
        "(SELECT string_agg(n::regtype::text, ' ' ORDER BY n) FROM (VALUES (16), (1700)) v(n))",
        "(SELECT n::regclass::text FROM (VALUES (1259)) v(n))",
        "to_regtype('timestamp with time zone')::oid",
        "'array_in'::regproc::oid",
        "'pg_catalog.array_in'::regproc",
        "int4(2.6)",
        "int8('5')",
        "pg_catalog.float8('1.5')",
        "text(5)",
        "bool('t')",
        "date('2024-01-01')",
        "timestamptz('2024-01-01 00:00:00+00')",
        "regclass('pg_class')::oid",
        "bpchar('a'::text) = 'a'::bpchar",
        "(SELECT (d).grantee FROM (SELECT aclexplode(NULL) AS d) a)",
        ("(SELECT count(*) FROM pg_depend JOIN pg_constraint c ON c.oid = refobjid WHERE classid = 'pg_class'::regclass"
        " AND refclassid = 'pg_constraint'::regclass AND objid = 'gold.orders_pkey'::regclass AND deptype = 'i')"),
        "'abs(integer)'::regprocedure::oid",
        "'pg_catalog.abs(int8)'::regprocedure",
        "'NOW()'::regprocedure::oid",
        "'round( numeric,pg_catalog.int4 )'::regprocedure",
        "'array_append(anycompatiblearray, anycompatible)'::regprocedure::oid",
        "to_regprocedure('abs(float8)')::text",
        "to_regprocedure('abs(date)')",
        "(SELECT lanvalidator::regprocedure::text FROM pg_language WHERE lanname = 'sql')",
        "(SELECT collcollate FROM pg_collation WHERE collname = 'C')",
        "'gold'::regnamespace::text",
        ("(SELECT r.ev_type FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class WHERE c.relname = 'totals'"
        " AND c.relhasrules AND rulename = '_RETURN' AND is_instead)"),
        "'mere'::regrole",
        ("array_to_string(ARRAY(SELECT attname FROM pg_attribute WHERE attrelid = 'gold.orders'::regclass"
        " AND attnum > 0 ORDER BY attnum), ', ')"),
        "array_to_string(ARRAY(SELECT attname FROM pg_attribute WHERE false), ', ')",
        "(SELECT indkey[0] FROM pg_index WHERE indrelid = 'gold.orders'::regclass)",
        "(SELECT indkey::text FROM pg_index WHERE indrelid = 'gold.orders'::regclass)",
        "(SELECT max(s) FROM (SELECT generate_subscripts(indkey, 1) s FROM pg_index WHERE indnatts = 2) t) > 0",
        "(SELECT min(s) FROM (SELECT generate_subscripts(indkey, 1) s FROM pg_index) t)",
        "(SELECT conkey[1] FROM pg_constraint WHERE conname = 'orders_pkey')",
        "(SELECT tableoid FROM pg_class WHERE relname = 'pg_am')",
        "(SELECT count(*) FROM pg_get_keywords() WHERE catcode = 'R')",
        "(SELECT count(*) FROM aclexplode(NULL))",
        ("(SELECT (information_schema._pg_expandarray(indkey)).n FROM pg_index"
        " WHERE indrelid = 'gold.orders'::regclass ORDER BY 1 LIMIT 1)"),
        "current_setting('TIMEZONE') = (SELECT current_setting(name) FROM pg_settings WHERE name = 'TimeZone')",
    ],
)  # fmt: skip
def test_a_function_says_what_it_says_in_postgres(expression: str, both: Pair) -> None:
    _same(both, f"SELECT {expression}")


def test_columns_come_in_their_order_without_being_asked(both: Pair) -> None:
    of_table = "JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid WHERE c.relname = 'kinds'"
    _same(both, f"SELECT attname, format_type(t.oid, atttypmod) FROM pg_attribute a {of_table} AND attnum > 0")
    _same(both, f"SELECT count(*) FROM pg_attribute a {of_table} AND attnum > 0")


def test_what_is_visible_follows_the_search_path(path: None, both: Pair) -> None:
    own = "WHERE n.nspname IN ('gold', 'silver') AND c.relkind IN ('r', 'v') ORDER BY 1, 2"
    _same(
        both,
        "SELECT n.nspname, c.relname, pg_table_is_visible(c.oid), c.oid::regclass::text"
        f" FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace {own}",
    )
    _same(both, "SELECT current_schema(), current_schemas(true), to_regclass('orders')::text")


@pytest.mark.parametrize("name", ["gold.nothing", "nothing", "nothing.orders"])
def test_a_table_that_is_not_there_has_no_number(name: str, both: Pair) -> None:
    for connection in both:
        with pytest.raises(psycopg.errors.UndefinedTable, match=f'"{name}" does not exist'):
            connection.execute(f"SELECT '{name}'::regclass")


def test_a_parameter_that_means_nothing_to_the_gateway_is_still_taken(both: Pair) -> None:
    query = "SELECT pg_get_constraintdef(oid, %s) FROM pg_constraint WHERE conname = %s"
    ours, theirs = (connection.execute(query, [True, "orders_pkey"]).fetchall() for connection in both)
    assert ours == theirs == [("PRIMARY KEY (id, line)",)]


def test_an_argument_without_a_table_means_the_column_of_the_query(both: Pair) -> None:
    """Not one of the relations in which the function looks."""
    _same(both, "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'orders_pkey'")
    _same(both, "SELECT relname, pg_table_is_visible(oid) FROM pg_class WHERE relname IN ('pg_am', 'kinds') ORDER BY 1")
    _same(both, "SELECT typname, format_type(oid, typtypmod) FROM pg_type WHERE typname = 'float8'")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT roles || 'x', reloptions FROM (SELECT 'a' AS roles, '{0}' AS reloptions) t WHERE reloptions = '{0}'",
        "SELECT indkey[1], conkey FROM (SELECT ARRAY[7, 8] AS indkey, ARRAY[1] AS conkey) t",
        "SELECT xmin, tableoid, oid FROM (SELECT 1 AS xmin, 2 AS tableoid, 'x' AS oid) t",
        "SELECT t.oid, word FROM (SELECT 5 AS oid, 'w' AS word) t WHERE t.oid = ANY(ARRAY[5])",
        "SELECT s FROM generate_subscripts(ARRAY['a', 'b'], 1) s ORDER BY s",
        "SELECT pg_class FROM (SELECT 1 AS pg_class) x",
    ],
)
def test_columns_of_other_tables_may_be_named_like_those_of_the_catalogs(query: str, both: Pair) -> None:
    _same(both, query)

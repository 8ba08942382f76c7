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
        SELECT oid, collname, collnamespace, collprovider, collisdeterministic, collencoding
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
    offered = {"offered": sorted(builtin.OFFERED)}
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

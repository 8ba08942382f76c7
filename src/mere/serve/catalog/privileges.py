"""has_table_privilege and its like: a user may read what it sees, and write nothing.

What a role does not see is not there: to ask for it by its name is the same error as for what never was.
"""

from __future__ import annotations

from dataclasses import dataclass

from mere.serve.parse.words import words
from mere.serve.protocol.port import PgError


@dataclass(frozen=True)
class Kind:
    """Of what can be asked for. `relation`: those that are there, by oid and name; none: all are."""

    known: frozenset[str]
    held: frozenset[str]
    relation: str = ""
    missing: str = ""  # the SQLSTATE and the words for a name that nothing has

    def says(self, privileges: str) -> bool:
        """Of several, separated by commas, one is enough. Nobody may hand on what he has."""
        given = [each.strip() for each in privileges.split(",")]
        for each in given:
            if each.lower().removesuffix(" with grant option") not in self.known:
                raise PgError("22023", f'unrecognized privilege type: "{each}"')
        return any(each.lower() in self.held for each in given)


def _kind(known: str, held: str, relation: str = "", missing: str = "") -> Kind:
    return Kind(words(known), words(held), relation, missing)


_RELATIONS = "mere_relations", "42P01:relation"
KINDS = {
    "has_table_privilege": _kind(
        "select insert update delete truncate references trigger maintain", "select", *_RELATIONS
    ),
    "has_any_column_privilege": _kind("select insert update references", "select", *_RELATIONS),
    "has_column_privilege": _kind("select insert update references", "select", *_RELATIONS),
    "has_schema_privilege": _kind("create usage", "usage", "mere_schemas", "3F000:schema"),
    "has_database_privilege": _kind("create connect temporary temp", "connect", "mere_databases", "3D000:database"),
    "has_function_privilege": _kind("execute", "execute"),
    "has_type_privilege": _kind("usage", "usage"),
    "has_language_privilege": _kind("usage", "usage"),
    "has_sequence_privilege": _kind("usage select update", ""),
    "has_tablespace_privilege": _kind("create", ""),
    "has_foreign_data_wrapper_privilege": _kind("usage", ""),
    "has_server_privilege": _kind("usage", ""),
}
_NAMED = {
    "mere_relations": "(SELECT min(mere_oid) FROM pg_catalog.mere_relations mere_one"
    " WHERE replace({0}, '\"', '') = mere_plain OR (replace({0}, '\"', '') = replace(mere_name, '\"', '') AND {1}))",
    "mere_schemas": "(SELECT min(mere_oid) FROM pg_catalog.mere_schemas WHERE mere_name = {0})",
    "mere_databases": "(SELECT min(mere_oid) FROM pg_catalog.mere_databases WHERE mere_name = {0})",
}


def template(name: str, arguments: int, visible: str) -> str:
    """What stands for the call in SQL, with whether the privilege is held as its last parameter. `visible`: the
    condition that a relation is found without its schema."""
    kind = KINDS[name]
    of_column = name == "has_column_privilege"
    with_user = arguments == 3 + of_column
    thing, held = f"${1 + with_user}", f"${arguments}"
    sql = _of_thing(kind, thing, held, visible)
    if of_column:
        sql = _of_column(thing, f"${2 + with_user}", sql, visible)
    return _of_user("$1", sql) if with_user else sql


def _of_thing(kind: Kind, thing: str, held: str, visible: str) -> str:
    """NULL for an oid that nothing has, an error for a name."""
    if not kind.relation:
        return f"CASE WHEN {thing} IS NOT NULL THEN {held} END"
    number = _number(kind.relation, thing, visible)
    text = f"CAST({thing} AS text)"
    return (
        f"CASE WHEN {thing} IS NULL THEN NULL"
        f" WHEN (SELECT count(*) FROM pg_catalog.{kind.relation} WHERE mere_oid = {number}) > 0 THEN {held}"
        f" WHEN TRY_CAST({text} AS bigint) IS NULL"
        f" THEN CAST(error({_missing(kind, text)}) AS boolean) END"
    )


def _missing(kind: Kind, text: str) -> str:
    """Of a table, its schema may not even be there."""
    missing = f"'{kind.missing} \"' || {text} || '\" does not exist'"
    if kind.relation != "mere_relations":
        return missing
    schema = f"split_part({text}, '.', 1)"
    there = f"SELECT count(*) FROM pg_catalog.mere_schemas WHERE mere_name = {schema}"
    return (
        f"CASE WHEN strpos({text}, '.') > 0 AND ({there}) = 0 THEN '3F000:schema \"' || {schema}"
        f" || '\" does not exist' ELSE {missing} END"
    )


def _number(relation: str, thing: str, visible: str) -> str:
    text = f"CAST({thing} AS text)"
    return f"coalesce(TRY_CAST({text} AS bigint), {_NAMED[relation].format(text, visible)})"


def _of_column(thing: str, column: str, sql: str, visible: str) -> str:
    text = f"CAST({column} AS text)"
    number = _number("mere_relations", thing, visible)
    of_table = f"SELECT count(*) FROM pg_catalog.mere_columns WHERE mere_oid = {number}"
    missing = f"'42703:column \"' || {text} || '\" of relation \"' || CAST({thing} AS text) || '\" does not exist'"
    return (
        f"CASE WHEN {column} IS NULL OR ({sql}) IS NULL THEN NULL"
        f" WHEN ({of_table} AND (mere_name = {text} OR CAST(mere_part AS text) = {text})) > 0 THEN ({sql})"
        f" WHEN TRY_CAST({text} AS bigint) IS NULL THEN CAST(error({missing}) AS boolean) END"
    )


def _of_user(user: str, sql: str) -> str:
    text = f"CAST({user} AS text)"
    there = f"SELECT count(*) FROM pg_catalog.mere_roles WHERE mere_name = {text} OR CAST(mere_oid AS text) = {text}"
    missing = f"'42704:role \"' || {text} || '\" does not exist'"
    return (
        f"CASE WHEN {user} IS NULL THEN NULL WHEN ({there}) > 0 THEN ({sql})"
        f" WHEN TRY_CAST({text} AS bigint) IS NULL THEN CAST(error({missing}) AS boolean) ELSE false END"
    )


def dynamic(kind: Kind, wanted: str) -> str:
    """Of one privilege that is found by the query."""
    held, known = (", ".join(f"'{each}'" for each in sorted(some)) or "''" for some in (kind.held, kind.known))
    text = f"lower(trim(CAST({wanted} AS text)))"
    error = f"error('22023:unrecognized privilege type: \"' || CAST({wanted} AS text) || '\"')"
    return (
        f"CASE WHEN {text} IN ({held}) THEN true WHEN replace({text}, ' with grant option', '') IN ({known}) THEN false"
        f" WHEN {wanted} IS NOT NULL THEN CAST({error} AS boolean) END"
    )


def thing_at(name: str, arguments: int) -> int:
    """Which argument is what is asked for: the first, or the second after a user."""
    least = 3 if name == "has_column_privilege" else 2
    if arguments not in (least, least + 1):
        raise PgError("42883", f"function {name} does not take {arguments} arguments")
    return arguments - least

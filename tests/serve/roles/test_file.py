"""A file of roles with a mistake is refused, with file, line and remedy: nobody reads more because of one."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from mere.errors import ConfigError
from mere.names import TableName
from mere.serve.access.roles import Writes
from mere.serve.roles import file

ROLES = """\
roles:
  analyst:
    refs: [main, "v*"]
    tables:
      - gold.*
      - {table: silver.orders, optional: true}
    columns:
      gold.customers: [id, country]
      silver.*: {only: "a*", optional: true}
    rows:
      gold.orders: region = 'AT' or seller = current_user
    time: 30s
    max_rows: 1000
    write: {refs: [dev, "v*"], schemas: sandbox, publish: main}
  admin: {tables: "*"}
users:
  ann: analyst
  no: admin
"""


def test_a_role_is_read_from_the_file() -> None:
    found = file.of_text(ROLES, Path("roles.yaml"))
    role, admin = found.of("ann"), found.of("no")
    assert role is not None
    assert role.name == "analyst"
    assert role == found.of("analyst")
    assert found.of("bob") is None
    assert (role.limits.time, role.limits.rows, role.history) == (timedelta(seconds=30), 1000, False)
    assert [role.may_connect(ref) for ref in ("main", "v1", "dev")] == [True, True, False]
    tables = {name: TableName.parse(name) for name in ("gold.x", "silver.orders", "silver.x", "gold.customers")}
    assert [role.may_read(table) for table in tables.values()] == [True, True, False, True]
    assert role.chosen(tables["gold.customers"], ["country", "name", "id"]) == ["country", "id"]
    assert role.chosen(tables["silver.orders"], ["amount", "id"]) == ["amount"]
    assert role.chosen(tables["gold.x"], ["id"]) is None
    assert [rule.line for rule in (*role.tables, *role.columns, *role.rows)] == [5, 6, 8, 9, 11]
    assert [rule.pattern for rule in role.unmet(tables.values())] == ["gold.orders"]
    assert admin is not None
    assert (admin.is_restricted, admin.history) == (False, True)
    assert (role.writes, admin.writes) == (Writes(("dev", "v*"), ("sandbox",), ("main",)), None)
    assert [role.may_write_to(ref) for ref in ("v1", "dev", "main")] == [True, False, False]  # it does not read dev
    assert [role.publishing.may_write_to(ref) for ref in ("v1", "dev", "main")] == [True, False, True]


def role(text: str) -> str:
    return f"roles:\n  ann:\n    {text}\n"


def rows(condition: str) -> str:
    return role(f"tables: gold.*\n    rows: {{gold.orders: {condition!r}}}")


# What is wrong: the line, and a word of what is said.
WRONG = {
    "": (1, "has no roles"),
    "roles": (1, "has no roles"),
    "[]": (1, "has no roles"),
    "null": (1, "has no roles"),
    "rules: {}": (1, "unknown key `rules`"),
    "users: {ann: x}": (1, "has no roles"),
    "roles: {}": (1, "must be a map with at least one entry"),
    "roles:": (1, "must be a map with at least one entry"),
    "roles: [ann]": (1, "must be a map with at least one entry"),
    "roles: ann": (1, "must be a map with at least one entry"),
    "roles: {ann: }": (1, "does not say what it may read"),
    "roles: {ann: {}}": (1, "no `tables`"),
    "roles: {ann: '*'}": (1, "does not say what it may read"),
    "roles: {ann: [gold.*]}": (1, "does not say what it may read"),
    "roles: {null: {tables: '*'}}": (1, "is not a name"),
    "roles: {~: {tables: '*'}}": (1, "is not a name"),
    "roles: {'': {tables: '*'}}": (1, "is not a name"),
    "roles: {' ann': {tables: '*'}}": (1, "is not a name"),
    'roles: {"ann\\u200b": {tables: "*"}}': (1, "is not a name"),
    "roles: {? [ann] : {tables: '*'}}": (1, "must be plain text"),
    "roles: {ann: {tables: '*'}, ann: {tables: gold.*}}": (1, "appears twice"),
    "roles: {ann: {tables: gold.*}}\nroles: {ann: {tables: '*'}}": (2, "appears twice"),
    "roles: {ann: {tables: '*'}}\nusers:": (2, "must be a map with at least one entry"),
    "roles: {ann: {tables: '*'}}\nusers: [ann]": (2, "must be a map with at least one entry"),
    "roles: {ann: {tables: '*'}}\nusers: {bob: anne}": (2, "no role `anne`, which bob should have"),
    "roles: {ann: {tables: '*'}}\nusers: {bob: }": (2, "must be a text"),
    "roles: {ann: {tables: '*'}}\nusers: {bob: [ann]}": (2, "must be a text"),
    "roles: {ann: {tables: '*'}}\nusers: {bob: ann, bob: ann}": (2, "appears twice"),
    "roles: {ann: {tables: '*'}}\n---\nroles: {}": (2, "second document"),
    role("tables: '*'\n    tables: gold.*"): (4, "appears twice"),
    role("tabels: gold.*"): (3, "unknown key `tabels`"),
    role("Tables: gold.*"): (3, "unknown key `Tables`"),
    role("tables: '*'\n    colums: {gold.x: [id]}"): (4, "unknown key `colums`"),
    role("tables: '*'\n    columns : {gold.x: [id]}\n    filter: x"): (5, "unknown key `filter`"),
    role("tables:"): (3, "is empty"),
    role("tables: []"): (3, "is empty"),
    role("tables: [[gold.*]]"): (3, "must be a text"),
    role("tables: {gold.*: true}"): (3, "unknown key `gold.*`"),
    role("tables: [1]"): (3, "must be a text"),
    role("tables: ['']"): (3, "is empty"),
    role("tables: [gold]"): (3, "not a table's name"),
    role("tables: ['gold.*', null]"): (3, "must be a text"),
    role("tables: [{optional: true}]"): (3, "has no `table`"),
    role("tables: [{table: gold.x, optional: 'true'}]"): (3, "must be `true` or `false`"),
    role("tables: [{table: gold.x, optional: yes}]"): (3, "must be `true` or `false`"),
    role("tables: [{table: gold.x, maybe: true}]"): (3, "unknown key `maybe`"),
    role("tables: gold.*\n    refs:"): (4, "is empty"),
    role("tables: gold.*\n    refs: []"): (4, "is empty"),
    role("tables: gold.*\n    refs: 1"): (4, "must be a text"),
    role("tables: gold.*\n    refs: {main: true}"): (4, "must be a text"),
    role("tables: gold.*\n    columns:"): (4, "must be a map with at least one entry"),
    role("tables: gold.*\n    columns: {}"): (4, "must be a map with at least one entry"),
    role("tables: gold.*\n    columns: [id]"): (4, "must be a map with at least one entry"),
    role("tables: gold.*\n    columns: {gold.x: []}"): (4, "is empty"),
    role("tables: gold.*\n    columns: {gold.x: }"): (4, "is empty"),
    role("tables: gold.*\n    columns: {gold.x: [id, null]}"): (4, "must be a text"),
    role("tables: gold.*\n    columns: {gold.x: [[id]]}"): (4, "must be a text"),
    role("tables: gold.*\n    columns: {gold.x: true}"): (4, "must be a text"),
    role("tables: gold.*\n    columns: {x: [id]}"): (4, "not a table's name"),
    role("tables: gold.*\n    columns: {gold.x: [id], gold.x: ['*']}"): (4, "appears twice"),
    role("tables: gold.*\n    columns: {gold.x: {}}"): (4, "has no `only`"),
    role("tables: gold.*\n    columns: {gold.x: {only: [], optional: true}}"): (4, "is empty"),
    role("tables: gold.*\n    rows: {}"): (4, "must be a map with at least one entry"),
    role("tables: gold.*\n    rows: region = 'AT'"): (4, "must be a map with at least one entry"),
    role("tables: gold.*\n    rows: {gold.x: }"): (4, "must be a text"),
    role("tables: gold.*\n    rows: {gold.x: true}"): (4, "must be a text"),
    role("tables: gold.*\n    rows: {gold.x: 1}"): (4, "must be a text"),
    role("tables: gold.*\n    rows: {gold.x: [id = 1]}"): (4, "must be a text"),
    role("tables: gold.*\n    rows: {gold.x: ''}"): (4, "is empty"),
    role("tables: gold.*\n    rows: {gold.x: 'id = 1', gold.x: 'id = 2'}"): (4, "appears twice"),
    role("tables: gold.*\n    history: 'false'"): (4, "must be `true` or `false`"),
    role("tables: gold.*\n    history: no"): (4, "must be `true` or `false`"),
    role("tables: gold.*\n    history:"): (4, "must be `true` or `false`"),
    role("tables: gold.*\n    time: soon"): (4, "is not a time"),
    role("tables: gold.*\n    time: 30"): (4, "is not a time"),
    role("tables: gold.*\n    time: 0s"): (4, "is not a time"),
    role("tables: gold.*\n    time:"): (4, "is empty"),
    role("tables: gold.*\n    time: [30s]"): (4, "must be a single value"),
    role("tables: gold.*\n    max_rows: many"): (4, "a whole number"),
    role("tables: gold.*\n    max_rows: 0"): (4, "a whole number"),
    role("tables: gold.*\n    max_rows: -1"): (4, "a whole number"),
    role("tables: gold.*\n    max_rows: 1.5"): (4, "a whole number"),
    role("tables: gold.*\n    max_rows:"): (4, "a whole number"),
    role("tables: gold.*\n    write:"): (4, "`write` has no `refs`"),
    role("tables: gold.*\n    write: true"): (4, "`write` has no `refs`"),
    role("tables: gold.*\n    write: '*'"): (4, "`write` has no `refs`"),
    role("tables: gold.*\n    write: {}"): (4, "`write` has no `refs`"),
    role("tables: gold.*\n    write: [dev]"): (4, "`write` has no `refs`"),
    role("tables: gold.*\n    write: {schemas: gold}"): (4, "`write` has no `refs`"),
    role("tables: gold.*\n    write: {refs: dev}"): (4, "`write` has no `schemas`"),
    role("tables: gold.*\n    write: {refs: dev, schemas: }"): (4, "is empty"),
    role("tables: gold.*\n    write: {refs: [], schemas: gold}"): (4, "is empty"),
    role("tables: gold.*\n    write: {refs: [1], schemas: gold}"): (4, "must be a text"),
    role("tables: gold.*\n    write: {refs: dev, schemas: [null]}"): (4, "must be a text"),
    role("tables: gold.*\n    write: {refs: dev, schemas: gold.*}"): (4, "is not a schema's name"),
    role("tables: gold.*\n    write: {refs: dev, schemas: gold, tables: '*'}"): (4, "unknown key `tables`"),
    role("tables: gold.*\n    write: {ref: dev, schemas: gold}"): (4, "unknown key `ref`"),
    role("tables: gold.*\n    write: {refs: dev, schemas: gold}\n    writes: {}"): (5, "unknown key `writes`"),
    # YAML's own ways to say something else than is seen.
    "x: &x {tables: '*'}\nroles: {ann: *x}": (1, "unknown key `x`"),
    "roles: {ann: &a {tables: gold.*}, bob: {<<: *a, refs: main}}": (1, "`<<` takes keys from elsewhere"),
    "roles: &r {ann: *r}": (1, "contains itself"),
    "roles: {ann: {tables: !!binary Z29sZC4q}}": (1, "a type of its own"),
    "roles: {ann: {tables: !mine gold.*}}": (1, "a type of its own"),
    "roles: {ann: {tables: !!set {gold.x, gold.y}}}": (1, "a type of its own"),
    "roles: !!python/object:os.system {ann: {tables: '*'}}": (1, "a type of its own"),
    "roles: {ann: {tables: [gold.*}}": (1, "not valid YAML"),
    "roles:\n  ann:\n\ttables: '*'": (3, "not valid YAML"),
    # Conditions that are none, or are about more than the row.
    rows("id ="): (4, "cannot be chosen by"),
    rows("id = 1)"): (4, "cannot be chosen by"),
    rows("id = 1; true"): (4, "one condition"),
    rows("id = 1 as x"): (4, "it uses `AS`"),
    rows("select true"): (4, "it uses a query"),
    rows("id in (select id from gold.customers)"): (4, "it uses a query"),
    rows("exists (select 1 from gold.customers)"): (4, "it uses a query"),
    rows("(with x as (select 1) select true)"): (4, "it uses a query"),
    rows("id = (table gold.customers)"): (4, "cannot be chosen by"),
    rows("id = $1"): (4, "it uses a parameter"),
    rows("id = ?"): (4, "cannot be chosen by"),
    rows("row_number() over (order by id) = 1"): (4, "it uses a window"),
    rows("unnest(array[true])"): (4, "cannot be chosen by"),
    rows("generate_series(1, 2) = 1"): (4, "cannot be chosen by"),
    rows("*"): (4, "cannot be chosen by"),
    rows("region = current_setting('my.region')"): (4, "it uses current_setting()"),
    rows("set_config('a.b', region, false) = 'x'"): (4, "it uses set_config()"),
    rows("region = current_schema"): (4, "cannot be chosen by"),
    rows("pg_terminate_backend(id)"): (4, "it uses pg_terminate_backend()"),
    rows("has_table_privilege('gold.orders', 'select')"): (4, "it uses has_table_privilege()"),
    rows("random() < 0.5"): (4, "it uses random()"),
    rows("day = current_date"): (4, "it uses the client's time zone"),
    rows("pg_read_file('/etc/passwd') = region"): (4, "permission denied for function"),
    rows("read_text('/etc/passwd') = region"): (4, "does not exist"),
    rows("delete from gold.orders"): (4, "cannot be chosen by"),
}


@pytest.mark.parametrize("text", WRONG)
def test_a_mistake_is_told_with_its_line(text: str) -> None:
    line, said = WRONG[text]
    with pytest.raises(ConfigError) as refused:
        file.of_text(text, Path("roles.yaml"))
    assert said in refused.value.message
    assert f"roles.yaml:{line}:" in refused.value.message
    assert refused.value.remedy


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        file.load(tmp_path / "nothing.yaml")
    (tmp_path / "roles.yaml").write_bytes(b"roles: \xff")
    with pytest.raises(ConfigError, match=r"roles.yaml:1:8: not UTF-8 text"):
        file.load(tmp_path / "roles.yaml")

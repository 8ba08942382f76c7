"""What a caller may write, as handlers ask for it: nothing that a role does not say."""

from __future__ import annotations

import pytest

from mere.serve.access.roles import Everybody, Role
from mere.serve.http.access import Access, Caller
from mere.serve.http.errors import HttpError
from tests.serve.iceberg.rest import roles

ROLES = """
roles:
  reader: {tables: "*"}
  writer:
    refs: [main, dev, "ann_*"]
    tables: [gold.*, "sandbox.*"]
    rows: {gold.orders: region = 'AT'}
    columns: {sandbox.people: [id]}
    write: {refs: ["*"], schemas: [sandbox, gold, silver]}
  owner: {tables: "*", write: {refs: [main, dev], schemas: "*"}}
"""
GIVEN = roles(ROLES)


def access(user: str) -> Access:
    role: Role | None = GIVEN.of(user)
    assert role is not None
    return Access(Caller(user, "127.0.0.1:1"), role)


@pytest.mark.parametrize(
    ("user", "ref", "schema", "table", "said"),
    [
        ("reader", "dev", "gold", "orders", "The role reader is read-only."),
        ("reader", "main", "gold", None, "The role reader is read-only."),
        ("writer", "dev", "sandbox", None, ""),
        ("writer", "ann_1", "sandbox", "new", ""),
        ("writer", "dev", "gold", "customers", ""),
        (
            "writer",
            "main",
            "sandbox",
            "new",
            "Only runs and publishes write to main, unless `write: refs`",
        ),  # `*` does not mean it
        ("writer", "bob_1", "sandbox", "new", "may write only to the branches *."),  # it does not read it
        ("writer", "dev", "bronze", None, "The role writer may write only to the schemas sandbox, gold, silver."),
        ("writer", "dev", "gold", "orders", "does not read all of gold.orders"),  # rows
        ("writer", "dev", "GOLD", "orders", "may write only to the schemas"),
        ("writer", "dev", "gold", "ORDERS", "does not read all of gold.ORDERS"),  # in any case
        ("writer", "dev", "gold", "orders__quarantine", "does not read all of gold.orders__quarantine"),
        ("writer", "dev", "sandbox", "people", "does not read all of sandbox.people"),  # columns
        ("writer", "dev", "silver", "new", "does not read all of silver.new"),  # not one of its tables
        ("owner", "main", "gold", "orders", ""),
        ("owner", "other", "gold", "orders", "The role owner may write only to the branches main, dev."),
    ],
)
def test_only_what_the_role_says_is_written(user: str, ref: str, schema: str, table: str | None, said: str) -> None:
    found = access(user)
    if said:
        assert not found.may_write(ref, schema, table)
        with pytest.raises(HttpError) as refused:
            found.check_write(ref, schema, table)
        assert (refused.value.status, refused.value.type) == (403, "ForbiddenException")
        assert said in refused.value.message
    else:
        assert found.may_write(ref, schema, table)
        found.check_write(ref, schema, table)
        found.check_write_to(ref)


def test_without_roles_branches_are_written_and_main_is_not() -> None:
    role = Everybody().of("ann")
    assert role is not None
    anybody = Access(Caller("ann", "127.0.0.1:1"), role)
    assert anybody.may_write("dev", "gold", "orders")
    assert not anybody.may_write("main", "gold", "orders")
    with pytest.raises(HttpError, match=r"ann may not write to main\. Only runs and publishes write to main, "):
        anybody.check_write_to("main")
    anybody.check_view("dev", "gold", "totals")


def test_only_who_reads_everything_comes_to_any_file() -> None:
    given = roles("""
roles:
  all: {tables: "*"}
  past: {tables: "*", history: false}
  ref: {tables: "*", refs: [main]}
  table: {tables: "gold.*"}
""")
    for name in ("all", "past", "ref", "table"):
        role = given.of(name)
        assert role is not None
        assert role.reads_everything is (name == "all")
        if name != "all":
            with pytest.raises(HttpError, match=f"{name} may not register x: the role {name} does not read everything"):
                Access(Caller(name, "127.0.0.1:1"), role).check_unrestricted("register x")


def test_a_view_is_written_by_those_who_read_everything() -> None:
    access("owner").check_view("main", "gold", "totals")
    with pytest.raises(HttpError, match="the role writer does not read everything"):
        access("writer").check_view("dev", "sandbox", "all_orders")
    with pytest.raises(HttpError, match="The role reader is read-only"):
        access("reader").check_view("dev", "gold", "totals")

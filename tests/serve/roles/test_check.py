"""A role that names what is not there keeps the server from starting; what a user sees can be asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner

from mere.cli import main
from mere.errors import ConfigError
from mere.lake.lake import Lake
from mere.serve.roles import check as rolecheck
from mere.serve.roles import file
from tests.lake import orders


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """`main` has orders, customers and raw; the tag is older, and the branch has a table more."""
    with Lake.create(tmp_path_factory.mktemp("checked") / "lake") as lake:
        orders.write(lake, "silver.raw", orders.CUSTOMERS)
        lake.tag("v1")
        orders.write(lake, "gold.orders", orders.ORDERS)
        orders.write(lake, "gold.customers", orders.CUSTOMERS)
        lake.branch("dev")
        orders.write(lake, "gold.returns", pa.table({"id": [1], "region": ["AT"]}), "dev")
        yield lake


ORDERS = {"gold.orders": "id > 1"}
NONE: list[str] = []

# What the role `ann` says, and words of the problems.
ROLES: list[tuple[dict[str, Any], list[str]]] = [
    ({"tables": "*", "rows": ORDERS}, NONE),
    ({"tables": ["gold.*", "silver.raw"], "columns": {"gold.cust*": ["n*", "country"]}}, NONE),
    ({"tables": "gold.return?", "rows": {"gold.returns": "region = 'AT'"}}, NONE),
    ({"tables": [{"table": "gold.later", "optional": True}]}, NONE),
    ({"tables": "*", "rows": {"gold.later": {"only": "x = 1", "optional": True}}}, NONE),
    ({"tables": "*", "columns": {"gold.orders": {"only": ["id", "later"], "optional": True}}}, NONE),
    ({"tables": "gold.*", "rows": {"gold.*": "id > 1"}}, ["no column id, which"]),
    ({"tables": "gold.order"}, ["names gold.order in `tables`"]),
    ({"tables": "gold.o"}, ["names gold.o in `tables`"]),
    ({"tables": "GOLD.*"}, ["names GOLD.* in `tables`"]),
    ({"tables": ["gold.*", "bronze.*"]}, ["names bronze.* in `tables`"]),
    ({"tables": "*", "rows": {"gold.order": "id > 1"}}, ["names gold.order in `rows`"]),
    ({"tables": "*", "rows": {"Gold.Orders": "id > 1"}}, ["names Gold.Orders in `rows`"]),
    ({"tables": "*", "rows": {"g\u043eld.orders": "id > 1"}}, [r"'g\u043eld.orders'"]),
    ({"tables": "*", "columns": {"gold.order": ["id"]}}, ["names gold.order in `columns`"]),
    ({"tables": "*", "columns": {"gold.orders": ["id", "totl"]}}, ["has a column totl"]),
    ({"tables": "*", "columns": {"gold.orders": ["ID"]}}, ["has a column ID", "none of the columns"]),
    ({"tables": "*", "columns": {"gold.orders": ["x*"]}}, ["has a column x*", "none of the columns"]),
    ({"tables": "*", "rows": {"gold.orders": "region = 'AT'"}}, ["no column region, which"]),
    ({"tables": "*", "rows": {"gold.orders": "id"}}, ["neither true nor false"]),
    ({"tables": "*", "rows": {"gold.orders": "1"}}, ["neither true nor false"]),
    ({"tables": "*", "rows": {"gold.orders": "'id > 1'"}}, ["cannot be chosen by"]),
    ({"tables": "*", "rows": {"gold.orders": "sum(id) > 1"}}, ["cannot be chosen by"]),
    ({"tables": "*", "rows": {"gold.orders": "lower(id) > 1"}}, ["cannot be chosen by"]),
    ({"tables": "*", "rows": {"gold.orders": "split_part(customer) = 'x'"}}, ["cannot be chosen by"]),
    ({"tables": "*", "rows": {"gold.orders": "orders.id > 1"}}, ["no column orders, which"]),
    ({"tables": "*", "write": {"refs": "later_*", "schemas": ["gold", "new_*", "new"]}}, NONE),
    (
        {"tables": "*", "refs": "dev", "write": {"refs": "dev", "schemas": "*", "publish": "main"}},
        ["publishes into main, which its `refs` leave"],
    ),
    (
        {"tables": "*", "refs": "v1", "write": {"refs": "dev", "schemas": "*"}},
        ["writes to dev, which its `refs` leave"],
    ),
    ({"tables": "gold.*", "write": {"refs": "dev", "schemas": ["gold", "new"]}}, ["writes to new, of which it reads"]),
    ({"tables": "*", "refs": "mian"}, ["may connect to: mian"]),
    ({"tables": "*", "refs": ["MAIN", "w*"]}, ["may connect to: MAIN, w*"]),
    ({"tables": "gold.*", "refs": "v1"}, ["names gold.* in `tables`"]),
    ({"tables": "gold.*", "refs": "main", "rows": {"gold.returns": "id > 1"}}, ["names gold.returns in `rows`"]),
]


def check(lake: Lake, role: dict[str, Any], users: list[str] | None = None) -> rolecheck.Found:
    text = yaml.safe_dump({"roles": {"ann": role}})
    return rolecheck.check(file.of_text(text, Path("roles.yaml")), lake, users)


@pytest.mark.parametrize(("role", "said"), ROLES)
def test_what_fits_nothing_is_a_problem(lake: Lake, role: dict[str, Any], said: list[str]) -> None:
    found = check(lake, role)
    assert [word for word, problem in zip(said, found.problems, strict=True) if word not in str(problem)] == []
    assert all(str(problem).startswith("roles.yaml:") for problem in found.problems)


def test_a_near_name_is_told_and_several_problems_are_told_at_once(lake: Lake) -> None:
    found = check(lake, {"tables": ["gold.*", "gold.order"], "rows": {"gold.custmers": "id > 1"}})
    with pytest.raises(ConfigError) as refused:
        found.raise_problems()
    assert "2 problems in the roles file" in refused.value.message
    assert refused.value.message.count("Did you mean") == 2


def test_what_does_no_harm_is_noted(lake: Lake) -> None:
    role = {"tables": "*", "rows": ORDERS}
    assert check(lake, role).notes == ["the role ann is shown nothing of v1: no table there is named gold.orders"]
    text = yaml.safe_dump({"roles": {"all": {"tables": "*"}, "free": {"tables": "*"}}, "users": {"ann": "all"}})
    found = rolecheck.check(file.of_text(text, Path("roles.yaml")), lake, ["bob"])
    assert found.notes == [
        "bob has no role and cannot connect",
        "ann has a role, but cannot log in: mere user add ann",
        "nobody has the role all",
        "nobody has the role free",
    ]


def test_a_role_that_writes_main_or_nothing_is_noted(lake: Lake) -> None:
    def notes(*refs: str) -> list[str]:
        return check(lake, {"tables": "*", "write": {"refs": list(refs), "schemas": "*"}}).notes

    assert notes("*") == notes("dev") == []
    assert notes("dev", "main") == ["the role ann writes to main without a run and a publish"]
    assert notes("v1") == notes("x*") == ["the role ann may write, but no branch is there that it may write to"]


# The commands


@pytest.fixture
def project(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mere.yaml").write_text(f"name: shop\nprofiles: {{local: {{lake: {lake.root}}}}}\n")
    (tmp_path / "secret").write_text("a secret")
    monkeypatch.chdir(tmp_path)
    assert mere("user", "add", "ann", "--password-file", "secret").exit_code == 0
    return tmp_path


def mere(*arguments: str) -> Any:
    return CliRunner().invoke(main, arguments)


def write(role: dict[str, Any]) -> None:
    Path("roles.yaml").write_text(yaml.safe_dump({"roles": {"seller": role}, "users": {"ann": "seller"}}))


def test_serve_does_not_start_with_roles_that_fit_nothing(project: Path) -> None:
    write({"tables": "gold.*", "rows": {"gold.ordrs": "id > 1"}})
    for arguments in (["--check"], []):
        done = mere("serve", "--roles", "roles.yaml", "--port", "0", "--http-port", "0", *arguments)
        assert done.exit_code == 1
        assert "roles.yaml:4: the role seller names gold.ordrs in `rows`" in done.output
        assert "Did you mean gold.orders" in done.output
    told = json.loads(mere("serve", "--roles", "roles.yaml", "--check", "--json").stdout)
    assert (told["ok"], told["users"], [each["line"] for each in told["problems"]]) == (False, ["ann"], [4])
    Path("roles.yaml").write_text("roles: {seller: {tables: []}}")
    told = json.loads(mere("serve", "--roles", "roles.yaml", "--check", "--json").stdout)
    assert told["problems"][0]["message"] == "`roles.seller.tables` is empty"
    assert mere("serve", "--roles", "missing.yaml", "--check").exit_code == 1


def test_an_empty_variable_does_not_let_everybody_read_all(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERE_ROLES", "")
    for arguments in (["serve", "--check"], ["user", "can", "ann"]):
        done = mere(*arguments)
        assert (done.exit_code, "MERE_ROLES is set, and names no file" in done.output) == (2, True)
    monkeypatch.setenv("MERE_ROLES", "missing.yaml")
    assert mere("serve", "--check").exit_code == 1
    monkeypatch.delenv("MERE_ROLES")
    assert mere("serve", "--check").exit_code == 0


def test_serve_check_says_that_it_would_start(project: Path) -> None:
    write({"tables": "gold.*", "refs": "main", "rows": ORDERS})
    done = mere("serve", "--roles", "roles.yaml", "--check")
    assert (done.exit_code, done.output) == (0, "It would start.\n")
    assert json.loads(mere("serve", "--check", "--trust", "--json").stdout) == {
        "ok": True, "problems": [], "notes": [], "users": None, "writes": {},
    }  # fmt: skip
    write({"tables": "gold.*", "write": {"refs": ["dev", "x*"], "schemas": ["gold", "g?"]}})
    done = mere("serve", "--roles", "roles.yaml", "--check")
    assert done.output == "seller writes schemas gold, g? on dev, x*\nIt would start.\n"
    told = json.loads(mere("serve", "--roles", "roles.yaml", "--check", "--json").stdout)
    assert told["writes"] == {"seller": {"refs": ["dev", "x*"], "schemas": ["gold", "g?"], "publish": []}}
    assert mere("serve", "--check", "--tls-cert", "x").exit_code == 2
    assert mere("serve", "--check", "--users", "nobody.json").exit_code == 2


def test_user_can_shows_what_a_user_sees(project: Path) -> None:
    write({"tables": "gold.*", "rows": ORDERS, "columns": {"gold.orders": ["id"]}, "time": "30s", "max_rows": 10})
    done = mere("user", "can", "ann", "--roles", "roles.yaml")
    assert done.output.splitlines() == [
        "ann has the role seller.",
        "refs: dev, main, v1, without their history",
        "a statement takes at most 0:00:30",
        "a result has at most 10 rows",
        "tables of main:",
        "  table           kind   columns        rows",
        "  gold.customers  table  name, country",
        "  gold.orders     table  id             id > 1",
    ]
    told = json.loads(mere("user", "can", "ann", "--roles", "roles.yaml", "--at", "v1", "--json").stdout)
    assert (told["role"], told["history"], told["tables"]) == ("seller", False, [])
    assert "no table there is named gold.orders" in told["refused"]
    assert "has no role" in mere("user", "can", "bob", "--roles", "roles.yaml").output
    assert "may read everything" in mere("user", "can", "bob").output
    refused = mere("user", "can", "ann", "--roles", "roles.yaml", "--at", "main~1")
    assert (refused.exit_code, "may not read main~1" in refused.output) == (2, True)


def test_user_can_shows_what_a_user_writes(project: Path) -> None:
    def told(*arguments: str) -> str:
        output: str = mere("user", "can", *arguments).output
        return next((line for line in output.splitlines() if line.startswith("writes")), "")

    write({"tables": "gold.*", "write": {"refs": ["*"], "schemas": ["gold"]}})
    assert told("ann", "--roles", "roles.yaml") == "writes over REST: schema gold on * (there now: dev)"
    write({"tables": "gold.*", "write": {"refs": ["later"], "schemas": ["*"]}})
    assert told("ann", "--roles", "roles.yaml") == "writes over REST: all schemas on later (there now: none)"
    write({"tables": "gold.*"})
    assert told("ann", "--roles", "roles.yaml") == ""
    assert told("ann") == "writes over REST: all schemas on * (there now: dev)"
    found = json.loads(mere("user", "can", "ann", "--json").stdout)
    assert found["write"] == {"refs": ["dev"], "patterns": ["*"], "schemas": ["*"], "publish": []}


def test_what_a_user_may_write_is_shown_as_the_role_names_it(project: Path) -> None:
    write({"tables": "gold.*", "write": {"refs": ["bob_*"], "schemas": ["gold"], "publish": "main"}})
    done = mere("user", "can", "ann", "--roles", "roles.yaml")
    assert "writes over REST: schema gold on bob_* (there now: none)\npublishes into main\n" in done.output
    told = json.loads(mere("user", "can", "ann", "--roles", "roles.yaml", "--json").stdout)
    assert told["write"] == {"refs": [], "patterns": ["bob_*"], "schemas": ["gold"], "publish": ["main"]}
    done = mere("serve", "--roles", "roles.yaml", "--check")
    assert "seller writes schema gold on bob_*, and publishes into main" in done.output

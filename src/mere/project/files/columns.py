"""What a model declares about its columns: descriptions, former names, and the contract."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from mere.entries import Entry
from mere.names import near
from mere.project.kinds import Kind
from mere.project.model import Promise
from mere.project.problems import Problems

COLUMN_KEYS = ("description", "was")
PROMISE_KEYS = ("type", "nullable", "description")

_SPAN = re.compile(r"(?P<count>[1-9]\d*)\s*(?P<unit>hour|day|week)s?", re.IGNORECASE)


def read_declared(found: Mapping[str, Entry], kind: Kind, problems: Problems) -> dict[str, Any]:
    """The fields of a model that `columns:` and `contract:` make."""
    descriptions: dict[str, str] = {}
    was: dict[str, str] = {}
    contract: dict[str, Promise] = {}
    with problems.gather():
        for name, entry in found["columns"].entries().items() if "columns" in found else ():
            with problems.gather():
                _read_column(name, entry, descriptions, was)
    with problems.gather():
        for name, entry in found["contract"].entries().items() if "contract" in found else ():
            with problems.gather():
                contract[name] = _promise(entry, kind, name, descriptions)
    promised = {name.casefold() for name in contract}
    for name in (*descriptions, *was) if contract else ():
        if name.casefold() not in promised:
            message = f"`columns` names `{name}`, which the contract does not have.{near(name, contract)}"
            problems.add(found["columns"].error(message, "A contract has all columns of the table."))
    return {"columns": descriptions, "was": was, "contract": contract}


def _read_column(name: str, entry: Entry, descriptions: dict[str, str], was: dict[str, str]) -> None:
    if not entry.is_map:
        descriptions[name] = entry.text()
        return
    given = entry.keys(*COLUMN_KEYS)
    if "description" in given:
        descriptions[name] = given["description"].text()
    if "was" not in given:
        return
    old = given["was"].text()
    if old.casefold() == name.casefold():
        raise given["was"].error(f"`{name}` cannot have been `{old}` before: that is its name", "Remove it.")
    if other := next((new for new, before in was.items() if before.casefold() == old.casefold()), None):
        raise given["was"].error(f"both `{other}` and `{name}` were `{old}` before", "Keep one of the two.")
    was[name] = old


def _promise(entry: Entry, kind: Kind, name: str, descriptions: dict[str, str]) -> Promise:
    """`amount: decimal(12, 2)`, or a map that says more."""
    if not entry.is_map:
        return Promise(entry.spark_type())
    given = entry.keys(*PROMISE_KEYS)
    if "type" not in given:
        raise entry.error(f"the contract does not say the type of `{name}`", f"Write `{name}: {{type: string}}`.")
    nullable = given["nullable"].flag() if "nullable" in given else True
    if not nullable and not kind.rules.stored:
        raise given["nullable"].error(
            "`nullable` has no effect: the model is a view, and keeps no rows", "Remove it, or write an audit."
        )
    if "description" in given:
        descriptions[name] = given["description"].text()
    return Promise(given["type"].spark_type(), nullable)


def read_context(entry: Entry) -> timedelta:
    found = _SPAN.fullmatch(entry.text().strip())
    if not found:
        raise entry.error(
            f"`{entry.key}` must be a number of hours, days or weeks",
            "Write for example `context: 30 days`. A month is 31 days at most.",
        )
    count, unit = int(found["count"]), found["unit"].lower()
    return timedelta(hours=count * {"hour": 1, "day": 24, "week": 24 * 7}[unit])

"""The roles file, read as strictly as the files of a project: whatever is not understood grants nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from mere.entries import Entry, nearest, parse, read
from mere.names import parse_age
from mere.serve.access.limits import Limits
from mere.serve.access.roles import ALL, Declared, Role, Rule, Writes
from mere.serve.access.watched import Watched
from mere.serve.language import conditions
from mere.serve.protocol.port import PgError

if TYPE_CHECKING:
    import yaml

_Make = Callable[[str, Entry, bool], Rule]  # of a pattern, what is said of its tables, and whether that is optional

_TABLES = 'Write the tables that it reads, or `tables: "*"` for all.'
_WRITE = "Write {refs: [dev], schemas: [sandbox]}, with the branches and schemas that the role writes to."
_KEYS = ("refs", "tables", "columns", "rows", "write", "history", "time", "max_rows")
_TEXT = "tag:yaml.org,2002:str"
# What YAML itself finds in a value without a tag. A merge is refused where its keys are read.
_PLAIN = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "merge", "value", "map", "seq")
)


def load(path: Path) -> Declared:
    """`roles`, by name, and `users`, with the role of each that has not the name of its role."""
    return declared(read(path))


def of_text(text: str, path: Path) -> Declared:
    return declared(parse(text, path))


def declared(file: Entry) -> Declared:
    if file.node is None or not file.is_map:
        raise file.error(f"{file.file.name} has no roles", "Write `roles:`, and below it each role by its name.")
    _check_tags(file, file.node, frozenset())
    given = file.keys("roles", "users")
    if "roles" not in given:
        raise file.error(f"{file.file.name} has no roles", "Write `roles:`, and below it each role by its name.")
    roles = {name: _role(name, entry) for name, entry in _filled(given["roles"]).items()}
    return Declared(roles, _users(given["users"], roles) if "users" in given else {}, str(file.file))


def _check_tags(file: Entry, node: yaml.Node, above: frozenset[int]) -> None:
    """Only texts, numbers, lists and maps: with a tag of its own, a value would mean something else than it shows."""
    import yaml

    here = Entry(file.file, "", node, file.first_line)
    if id(node) in above:
        raise here.error("a value contains itself", "Write it out instead of `*`.")
    if node.tag not in _PLAIN:
        raise here.error("a value has a type of its own", "Write a text, a number, a list or a map.")
    if isinstance(node, yaml.MappingNode | yaml.SequenceNode):
        for each in node.value:
            for part in each if isinstance(each, tuple) else (each,):
                _check_tags(file, part, above | {id(node)})


def _filled(entry: Entry) -> dict[str, Entry]:
    """A map with something in it, under names."""
    if entry.is_null or not entry.is_map or not (found := entry.entries()):
        raise entry.error(
            f"`{entry.key}` must be a map with at least one entry", "Write an entry below it, or remove the key."
        )
    for name, value in found.items():
        if name != name.strip() or not name.isprintable() or name in ("", "~", "null"):
            raise value.error(f"{name!r} in `{entry.key}` is not a name", "Write it without spaces around it.")
    return found


def _users(entry: Entry, roles: Mapping[str, Role]) -> dict[str, str]:
    found = {}
    for user, role in _filled(entry).items():
        name = _text(role)
        if name not in roles:
            raise role.error(f"there is no role `{name}`, which {user} should have", nearest(name, roles, "roles"))
        found[user] = name
    return found


def _role(name: str, entry: Entry) -> Role:
    if not entry.is_map:
        raise entry.error(f"the role {name} does not say what it may read", _TABLES)
    given = entry.keys(*_KEYS)
    if "tables" not in given:
        raise entry.error(f"the role {name} has no `tables`", _TABLES)
    columns, rows = _rules(given.get("columns"), _columns), _rules(given.get("rows"), _condition)
    return Role(
        name,
        refs=_texts(given["refs"]) if "refs" in given else (ALL,),
        tables=tuple(_granted(item) for item in _items(given["tables"])),
        columns=columns,
        rows=rows,
        writes=_writes(given["write"]) if "write" in given else None,
        history=_flag(given["history"]) if "history" in given else not (columns or rows),
        limits=Limits(
            _duration(given["time"]) if "time" in given else None,
            given["max_rows"].count() if "max_rows" in given else None,
        ),
        line=entry.line,
    )


def _writes(entry: Entry) -> Writes:
    """`write`: both have to be said, for a role that writes everywhere is rarely meant."""
    given = entry.keys("refs", "schemas", "publish") if entry.is_map else {}
    if missing := [key for key in ("refs", "schemas") if key not in given]:
        raise entry.error(f"`write` has no `{missing[0]}`", _WRITE)
    for item in _items(given["schemas"]):
        if "." in _text(item):
            raise item.error(f"`{_text(item)}` is not a schema's name", "Write the schema alone, such as sandbox.")
    publish = _texts(given["publish"]) if "publish" in given else ()
    return Writes(_texts(given["refs"]), _texts(given["schemas"]), publish, entry.line)


def _granted(item: Entry) -> Rule:
    """An item of `tables`: a pattern, or a map with the pattern as `table`."""
    if not item.is_map:
        return Rule(_table(item, _text(item)), line=item.line, optional=_text(item) == ALL)
    given = item.keys("table", "optional")
    if "table" not in given:
        raise item.error(f"an item of `{item.key}` has no `table`", "Write {table: gold.orders, optional: true}.")
    return Rule(_table(given["table"], _text(given["table"])), line=item.line, optional=_optional(given))


def _rules(entry: Entry | None, make: _Make) -> tuple[Rule, ...]:
    """`columns` or `rows`, by the pattern of their tables."""
    return tuple(_rule(pattern, each, make) for pattern, each in _filled(entry).items()) if entry else ()


def _rule(pattern: str, entry: Entry, make: _Make) -> Rule:
    """What is said of the tables, by itself or as `only` with what else there is to say."""
    if not entry.is_map:
        return make(_table(entry, pattern), entry, False)
    given = entry.keys("only", "optional")
    if "only" not in given:
        raise entry.error(f"`{entry.key}` has no `only`", "Write {only: …, optional: true}, with what may be read.")
    return make(_table(entry, pattern), given["only"], _optional(given))


def _columns(pattern: str, entry: Entry, optional: bool) -> Rule:
    return Rule(pattern, columns=_texts(entry), optional=optional, line=entry.line)


def _condition(pattern: str, entry: Entry, optional: bool) -> Rule:
    text = _text(entry)
    try:
        conditions.read(text)
    except PgError as error:
        raise entry.error(
            f"the rows of {pattern} cannot be chosen by {text!r}: {error.message}",
            "Write a condition on the table's columns in Postgres's SQL, such as region = 'AT'.",
        ) from error
    return Rule(pattern, condition=text, optional=optional, line=entry.line)


def _table(entry: Entry, pattern: str) -> str:
    if pattern != ALL and "." not in pattern:
        raise entry.error(f"`{pattern}` is not a table's name", "Write schema.table, with * for anything: gold.*.")
    return pattern


def _items(entry: Entry) -> list[Entry]:
    found = entry.items()
    if not found:
        raise entry.error(f"`{entry.key}` is empty", "Write at least one name, or remove the key.")
    return found


def _texts(entry: Entry) -> tuple[str, ...]:
    return tuple(_text(item) for item in _items(entry))


def _text(entry: Entry) -> str:
    """What YAML takes for a number, true or nothing is no name."""
    if entry.node is None or entry.node.tag != _TEXT:
        raise entry.error(f"`{entry.key}` must be a text", "Put it in quotes if it is one.")
    return entry.unexpanded().strip()


def _optional(given: Mapping[str, Entry]) -> bool:
    return "optional" in given and _flag(given["optional"])


def _flag(entry: Entry) -> bool:
    """`true` and `false`, and none of YAML's other words for them."""
    if entry.node is None or entry.node.tag != "tag:yaml.org,2002:bool":
        raise entry.error(f"`{entry.key}` must be `true` or `false`", "Write one of these, without quotes.")
    return entry.flag()


def _duration(entry: Entry) -> timedelta:
    found = parse_age(entry.unexpanded())
    if not found:
        raise entry.error(f"{entry.unexpanded()!r} is not a time", "Write it as 30s, 5m or 1h.")
    return found


class RoleFile:
    """Implements `roles.Roles`: the file as it is now. While it cannot be used, those who are in keep what they had."""

    def __init__(self, path: Path, check: Callable[[Declared], None]) -> None:
        """`check`: ConfigError for roles that are not to be taken."""

        def taken(path: Path) -> Declared:
            found = load(path)
            check(found)
            return found

        self._watched = Watched(path, taken, taken(path))

    def of(self, user: str) -> Role | None:
        return self._watched.last().of(user)

    def named(self, role: str) -> Role | None:
        return self._watched.last().named(role)

    def admit(self) -> None:
        self._watched.admit()

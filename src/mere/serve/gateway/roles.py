"""Who may read what: refs, tables, columns, rows. A role sees nothing else, in the catalogs either."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from mere.errors import ConfigError
from mere.names import TableName, near, parse_age
from mere.serve.gateway.limits import Limits
from mere.serve.gateway.port import PgError
from mere.syntax import not_yaml

_KEYS = ("refs", "tables", "columns", "rows", "time", "max_rows")


@dataclass(frozen=True)
class Role:
    """Patterns are those of file names: `gold.*`, `*.orders`, `v*`. The default reads all."""

    name: str
    refs: tuple[str, ...] = ("*",)
    tables: tuple[str, ...] = ("*",)
    visible: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)  # by table: its columns
    filters: Mapping[str, str] = field(default_factory=dict, hash=False)  # by table: a condition in SQL
    limits: Limits = field(default_factory=Limits)

    def may_connect(self, ref: str) -> bool:
        """By the branch or tag with which the database's name begins; a commit's id is not one."""
        return _fits(ref, self.refs)

    def may_read(self, table: TableName) -> bool:
        return _fits(str(table), self.tables)

    def columns(self, table: TableName) -> tuple[str, ...] | None:
        """Those it may read; None: all."""
        return self.visible.get(str(table))

    def row_filter(self, table: TableName) -> str | None:
        return self.filters.get(str(table))

    @property
    def is_restricted(self) -> bool:
        """To some tables, or some of the columns or rows of one."""
        return self.tables != ("*",) or bool(self.visible or self.filters)

    @cached_property
    def key(self) -> str:
        """The same for roles that may read the same: what is computed for one serves the other."""
        parts = (self.tables, sorted(self.visible.items()), sorted(self.filters.items()))
        return blake2b(repr(parts).encode(), digest_size=6).hexdigest()


@dataclass(frozen=True)
class Roles:
    """Which role a user has. Without any roles, every user reads all."""

    roles: Mapping[str, Role] = field(default_factory=dict)
    users: Mapping[str, str] = field(default_factory=dict)

    def of(self, user: str) -> Role | None:
        if not self.roles:
            return Role(user)
        return self.roles.get(self.users.get(user, user))


def load(path: Path) -> Roles:
    """From a YAML file: `roles`, by name, and `users`, with the role of each that has not the name of its role."""
    import yaml

    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        raw = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise not_yaml(error, text, str(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
        raise ConfigError(f"The roles cannot be read: {reason}.", file=str(path)) from error
    if not isinstance(raw, dict) or set(raw) - {"roles", "users"} or not isinstance(raw.get("roles"), dict):
        raise ConfigError("A file of roles has `roles`, by name, and may have `users`.", file=str(path))
    found, users = parse(raw["roles"]), {str(user): str(role) for user, role in (raw.get("users") or {}).items()}
    for user, role in users.items():
        if role not in found:
            raise ConfigError(f"{user} has a role that is not there: {role!r}.{near(role, found)}", file=str(path))
    return Roles(found, users)


def parse(raw: Mapping[str, Any]) -> dict[str, Role]:
    """Roles as they stand in a configuration: by name, what each may do."""
    return {name: _role(name, about or {}) for name, about in raw.items()}


def _role(name: str, about: Mapping[str, Any]) -> Role:
    for key in about:
        if key not in _KEYS:
            raise ConfigError(f"Role {name} has an unknown key {key!r}.{near(key, _KEYS)}")
    rows = {str(TableName.parse(table)): str(condition) for table, condition in about.get("rows", {}).items()}
    for table, condition in rows.items():
        _check_condition(name, table, condition)
    columns = {str(TableName.parse(table)): tuple(names) for table, names in about.get("columns", {}).items()}
    return Role(
        name,
        refs=_patterns(name, about, "refs"),
        tables=_patterns(name, about, "tables"),
        visible=columns,
        filters=rows,
        limits=Limits(_duration(name, about.get("time")), about.get("max_rows")),
    )


def _check_condition(name: str, table: str, condition: str) -> None:
    """Here, and not when somebody asks: a filter that cannot be read must not become an error of all queries."""
    from mere.serve.gateway import guard, syntax

    try:
        for node in syntax.expression(condition).walk():
            guard.check_node(node)
    except PgError as error:
        raise ConfigError(
            f"Role {name}: the rows of {table} cannot be chosen by {condition!r}: {error.message}."
        ) from error


def _patterns(name: str, about: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = about.get(key, "*")
    patterns = [found] if isinstance(found, str) else found
    if not isinstance(patterns, list) or not all(isinstance(each, str) for each in patterns):
        raise ConfigError(f"Role {name}: {key} is a list of names, which may have a * in them.")
    return tuple(patterns)


def _duration(name: str, text: str | None) -> timedelta | None:
    if text is None:
        return None
    found = parse_age(str(text))
    if found is None:
        raise ConfigError(f"Role {name}: {text!r} is not a time.", remedy="Write it as 30s, 5m or 1h.")
    return found


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)

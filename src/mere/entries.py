"""YAML with positions: every value knows its file, line and dotted key, so that every error can name them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlsplit

from mere.errors import ConfigError
from mere.names import closest
from mere.spark_types import is_type

if TYPE_CHECKING:
    import yaml

_MEMORY = re.compile(r"[1-9][0-9]*[kmgt]", re.IGNORECASE)
_FILL = "Write a value, or remove the key."
VARIABLE = re.compile(r"\$(\$?)\{([^}]*)\}")


def read(path: Path) -> Entry:
    """A whole file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        from mere.syntax import not_utf8

        raise not_utf8(exc, str(path)) from exc
    return parse(text, path)


def parse(text: str, file: Path, first_line: int = 1, margin: int = 0) -> Entry:
    """YAML that stands in a file from `first_line` on, each line after a `margin` of so many columns."""
    import yaml  # here, because `import mere` must stay fast

    try:
        root: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        from mere.syntax import not_yaml

        # Without its cause, for PyYAML quotes the line, which may hold a secret.
        raise not_yaml(error, text, str(file), first_line, margin) from None
    return Entry(file, "", root, first_line)


@dataclass(frozen=True)
class Entry:
    """A place in the file."""

    file: Path
    key: str
    node: yaml.Node | None
    first_line: int = 1

    @property
    def line(self) -> int:
        return self.first_line + (self.node.start_mark.line if self.node is not None else 0)

    def error(self, message: str, remedy: str | None = None) -> ConfigError:
        return ConfigError(message, remedy=remedy, file=str(self.file), line=self.line)

    def _at(self, key: str, node: yaml.Node) -> Entry:
        return Entry(self.file, key, node, self.first_line)

    def entries(self) -> dict[str, Entry]:
        import yaml

        if self.node is None or self.is_null:
            return {}
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error(f"{self._name()} must be a map of keys and values")
        found: dict[str, Entry] = {}
        for key_node, value_node in self.node.value:
            here = self._at(self.key, key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                raise here.error(f"a key in {self._name()} must be plain text", "Write a name.")
            if key_node.tag == "tag:yaml.org,2002:merge":
                raise here.error("`<<` takes keys from elsewhere, which is not supported", "Write the keys out.")
            key = str(key_node.value)
            if key in found:
                raise here.error(f"the key `{key}` appears twice in {self._name()}", "Remove one of them.")
            found[key] = self._at(f"{self.key}.{key}" if self.key else key, value_node)
        return found

    def keys(self, *valid: str) -> dict[str, Entry]:
        """The entries, none of which may have a name outside `valid`."""
        found = self.entries()
        for key, value in found.items():
            if key not in valid:
                raise value.error(f"unknown key `{key}` in {self._name()}", nearest(key, valid, "keys"))
        return found

    def items(self) -> list[Entry]:
        """The items of a list; one value stands for a list of one."""
        import yaml

        if self.node is None or self.is_null:
            return []
        if isinstance(self.node, yaml.SequenceNode):
            return [self._at(self.key, node) for node in self.node.value]
        return [self]

    def texts(self) -> tuple[str, ...]:
        return tuple(item.text() for item in self.items())

    @property
    def is_mapping(self) -> bool:
        import yaml

        return isinstance(self.node, yaml.MappingNode)

    @property
    def is_null(self) -> bool:
        return self.node is not None and str(self.node.tag) == "tag:yaml.org,2002:null"

    @property
    def is_map(self) -> bool:
        import yaml

        return isinstance(self.node, yaml.MappingNode)

    def value(self) -> object:
        """What YAML itself makes of it: numbers, dates, lists, maps. Environment variables are not looked up in it."""
        import yaml

        if self.node is None:
            return None
        try:
            return yaml.SafeLoader("").construct_document(self.node)
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            message = f"`{self.key}` has a value that cannot be made from what is written"
            raise self.error(message, "Write a text, a number, a date, a list or a map, without `!`.") from error

    def choice(self, *valid: str) -> str:
        value = self.text()
        if value not in valid:
            raise self.error(f"`{self.key}` cannot be `{value}`", nearest(value, valid, "values"))
        return value

    def text(self) -> str:
        value = self._expanded()
        if not value.strip():
            raise self.error(f"`{self.key}` is empty", _FILL)
        return value

    def unexpanded(self) -> str:
        """The text with its variables as they are written, for whoever looks them up when they are needed."""
        import yaml

        if not isinstance(self.node, yaml.ScalarNode):
            raise self.error(f"`{self.key}` must be a single value", "Write one value, without brackets.")
        if not self.node.value.strip():
            raise self.error(f"`{self.key}` is empty", _FILL)
        return str(self.node.value)

    def postgres_url(self) -> str:
        """A variable is the whole URL, or a part of it that may hold any character: it is encoded for its place."""
        value = self._expanded(url_part)
        try:
            parts = urlsplit(value)
            written = urlsplit(
                VARIABLE.sub(lambda found: "x" if found[1] else "", str(getattr(self.node, "value", "")))
            )
        except ValueError:  # its text may hold a password
            parts = written = urlsplit("")
        if parts.scheme not in ("postgresql", "postgres") or not parts.path.strip("/"):
            raise self.error(
                f"`{self.key}` must be the URL of a Postgres database", "Write postgresql://host/database."
            )
        if written.password or any("password" in name and text for name, text in parse_qsl(written.query)):
            raise self.error(
                f"`{self.key}` holds a password", "Write ${NAME} for it, or leave it to PGPASSWORD or ~/.pgpass."
            )
        return value

    def memory(self) -> str:
        value = self._expanded()
        if not _MEMORY.fullmatch(value):
            raise self.error(f"`{self.key}` must be an amount of memory", "Write for example `2g` or `800m`.")
        return value.lower()

    def spark_type(self) -> str:
        """A type in Spark's words, as they are written."""
        value = self.text().strip()
        if not is_type(value):
            raise self.error(
                f"`{value}` is not a type",
                "Write it in Spark's words, such as bigint, string, decimal(12, 2), array<int>.",
            )
        return value

    def count(self) -> int:
        value = self._expanded()
        if not value.isdecimal() or int(value) < 1:
            raise self.error(f"`{self.key}` must be a whole number of at least 1", "Write for example 1000.")
        return int(value)

    def flag(self) -> bool:
        value = self._expanded().lower()
        if value not in ("true", "false"):
            raise self.error(f"`{self.key}` must be `true` or `false`", "Write one of these.")
        return value == "true"

    def _expanded(self, fitted: Callable[[re.Match[str], str], str] = lambda _, value: value) -> str:
        """With the variables' values in it, each as `fitted` makes it fit its place."""
        import yaml

        if not isinstance(self.node, yaml.ScalarNode):
            raise self.error(f"`{self.key}` must be a single value", "Write one value, without brackets.")
        return expanded(str(self.node.value), f"`{self.key}`", self.error, fitted)

    def _name(self) -> str:
        return f"`{self.key}`" if self.key else self.file.name


def expanded(
    text: str,
    what: str,
    error: Callable[[str, str], Exception],
    fitted: Callable[[re.Match[str], str], str] = lambda _, value: value,
) -> str:
    """A text with the values of its variables in it. `what` it is, and the `error` that one of them is not set."""

    def value(match: re.Match[str]) -> str:
        escaped, name = match.groups()
        if escaped:
            return "${" + name + "}"
        if name not in os.environ:
            raise error(f"{what} needs the environment variable `{name}`, which is not set", f"Set it: export {name}=…")
        return fitted(match, os.environ[name])

    return VARIABLE.sub(value, text)


def url_part(variable: re.Match[str], value: str) -> str:
    before, after = variable.string[: variable.start()], variable.string[variable.end() :]
    if not before and not after:
        return value
    inside = before.partition("://")[2]
    is_host = not re.search("[/?]", inside) and "@" not in after.partition("/")[0]
    return quote(value, safe=":,[]" if is_host else "")  # a host may bring its port, and IPv6 its brackets


def nearest(word: str, valid: Iterable[str], kind: str) -> str:
    names = sorted(set(valid))
    close = closest(word, names)
    guess = f"Did you mean `{close[0]}`? " if close else ""
    return f"{guess}Valid {kind}: {', '.join(names)}."

"""mere.yaml: the project's name and, per profile, where the lake is and how Spark runs."""

from __future__ import annotations

import difflib
import getpass
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mere.errors import ConfigError

if TYPE_CHECKING:
    import yaml

FILE_NAME = "mere.yaml"
DEFAULT_PROFILE = "local"

_TOP = ("name", "profiles")
_PROFILE = ("lake", "catalog", "spark")
_SPARK = ("memory", "cores", "ui", "ml", "conf")
KEYS = (*_TOP, *_PROFILE, *_SPARK)

_MEMORY = re.compile(r"[1-9][0-9]*[kmgt]", re.IGNORECASE)
_VARIABLE = re.compile(r"\$(\$?)\{([^}]*)\}")

# Settings that only a launcher reads. The JVM is already running when Spark sees its conf, so they would
# be ignored without a word.
_LAUNCHER_CONFS = {
    "spark.driver.memory": "Set `memory:` beside `conf:` instead.",
    "spark.master": "Set `cores:` beside `conf:` instead.",
    "spark.ui.enabled": "Set `ui:` beside `conf:` instead.",
    "spark.jars.packages": "Download the jars and list the files in `spark.jars`.",
    "spark.jars.repositories": "Download the jars and list the files in `spark.jars`.",
}


@dataclass(frozen=True)
class SparkSettings:
    """How the local Spark session is started.

    `cores` of None means all that this process may use. `ml` puts Spark's machine-learning jars on the class
    path: they cost an eighth of the start-up, so they are left out unless asked for.
    """

    memory: str = "2g"
    cores: int | None = None
    ui: bool = False
    ml: bool = False
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Project:
    """One project under one profile. `path` is the mere.yaml itself."""

    name: str
    path: Path
    profile: str
    lake: Path
    catalog: str | None  # the URL of a Postgres database; None: a SQLite file in the lake's folder
    spark: SparkSettings


def mere_home() -> Path:
    """Where mere keeps what it can fetch or build again: jars, class-data archives, logs, a JDK."""
    if chosen := os.environ.get("MERE_HOME"):
        return Path(chosen).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "mere"
    if cache := os.environ.get("XDG_CACHE_HOME"):
        return Path(cache) / "mere"
    return Path.home() / ".cache" / "mere"


def default_author() -> str:
    """Who signs commits and snapshots, unless a caller says otherwise."""
    try:
        return os.environ.get("MERE_AUTHOR") or getpass.getuser()
    except (KeyError, OSError):
        return "unknown"  # a container may run under a number that no user has


def find_project(start: Path) -> Path | None:
    """The mere.yaml of `start` or of the nearest folder above it."""
    start = start.absolute()
    for folder in (start, *start.parents):
        candidate = folder / FILE_NAME
        if candidate.is_file():
            return candidate
    return None


def project_name(folder: str) -> str:
    """A project's name from its folder's: small letters, digits, `_` and `-`."""
    return re.sub(r"[^a-z0-9_-]+", "_", folder.lower()).strip("_-") or "lake"


def load(path: Path, profile: str | None = None) -> Project:
    """Read mere.yaml. The profile is the argument, else MERE_PROFILE, else `local`."""
    path = path.absolute()
    chosen = profile or os.environ.get("MERE_PROFILE") or DEFAULT_PROFILE
    root = _Entry(path, "", _parse(path))
    top = root.keys(*_TOP)
    if "name" not in top:
        raise ConfigError(f"{path}:1: the key `name` is missing", remedy="Add a line such as `name: shop`.")
    profiles = top["profiles"].entries() if "profiles" in top else {}
    for entry in profiles.values():
        # Every profile is checked, so that a typing error is found today and not at the first deployment;
        # only the chosen one needs its environment variables.
        _check_profile(entry)
    if chosen not in profiles and chosen != DEFAULT_PROFILE:
        raise ConfigError(
            f"{path}: there is no profile `{chosen}`",
            remedy=_nearest(chosen, [*profiles, DEFAULT_PROFILE], "profiles"),
        )
    settings = profiles[chosen].entries() if chosen in profiles else {}
    lake = settings["lake"].text() if "lake" in settings else "lake"
    return Project(
        name=top["name"].text(),
        path=path,
        profile=chosen,
        lake=path.parent / Path(lake).expanduser(),
        catalog=settings["catalog"].postgres_url() if "catalog" in settings else None,
        spark=_spark(settings.get("spark")),
    )


def _check_profile(entry: _Entry) -> None:
    keys = entry.keys(*_PROFILE)
    if "spark" in keys:
        spark = keys["spark"].keys(*_SPARK)
        if "conf" in spark:
            _check_conf(spark["conf"])


def _check_conf(entry: _Entry) -> None:
    for key, value in entry.entries().items():
        if key in _LAUNCHER_CONFS:
            raise value.error(f"`{key}` has no effect here", _LAUNCHER_CONFS[key])
        if not key.startswith("spark."):
            raise value.error(f"`{key}` is not a Spark setting", "Their names begin with `spark.`.")


def _spark(entry: _Entry | None) -> SparkSettings:
    if entry is None:
        return SparkSettings()
    given = entry.entries()
    default = SparkSettings()
    conf = given["conf"].entries() if "conf" in given else {}
    return SparkSettings(
        memory=given["memory"].memory() if "memory" in given else default.memory,
        cores=given["cores"].count() if "cores" in given else default.cores,
        ui=given["ui"].flag() if "ui" in given else default.ui,
        ml=given["ml"].flag() if "ml" in given else default.ml,
        conf={key: value.text() for key, value in conf.items()},
    )


def _parse(path: Path) -> yaml.Node | None:
    import yaml  # here, because `import mere` must stay fast

    try:
        text = path.read_text(encoding="utf-8")
        root: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path}: is not UTF-8 text") from exc
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        # PyYAML would add the line itself and quote words from it, and both may be a secret.
        problem = re.sub(r"'[^']{2,}'", "…", exc.problem or exc.context or "not YAML")
        raise ConfigError(f"{path}:{line}: not valid YAML: {problem}") from None
    except yaml.YAMLError:
        raise ConfigError(f"{path}: not valid YAML") from None
    return root


@dataclass(frozen=True)
class _Entry:
    """A place in the file: knows its line and dotted key, so that every error can name them."""

    file: Path
    key: str
    node: yaml.Node | None

    def error(self, message: str, remedy: str | None = None) -> ConfigError:
        line = self.node.start_mark.line + 1 if self.node is not None else 1
        return ConfigError(f"{self.file}:{line}: {message}", remedy=remedy)

    def entries(self) -> dict[str, _Entry]:
        import yaml

        if self.node is None or self._is_null():
            return {}
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error(f"{self._name()} must be a map of keys and values")
        found: dict[str, _Entry] = {}
        for key_node, value_node in self.node.value:
            here = _Entry(self.file, self.key, key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                raise here.error(f"a key in {self._name()} must be plain text")
            key = str(key_node.value)
            if key in found:
                raise here.error(f"the key `{key}` appears twice in {self._name()}")
            found[key] = _Entry(self.file, f"{self.key}.{key}" if self.key else key, value_node)
        return found

    def keys(self, *valid: str) -> dict[str, _Entry]:
        """The entries, none of which may have a name outside `valid`."""
        found = self.entries()
        for key, value in found.items():
            if key not in valid:
                raise value.error(f"unknown key `{key}` in {self._name()}", _nearest(key, valid, "keys"))
        return found

    def text(self) -> str:
        value = self._expanded()
        if not value.strip():
            raise self.error(f"`{self.key}` is empty")
        return value

    def postgres_url(self) -> str:
        value = self._expanded()
        parts = urlsplit(value)
        if parts.scheme not in ("postgresql", "postgres") or not parts.path.strip("/"):
            raise self.error(
                f"`{self.key}` must be the URL of a Postgres database", "Write postgresql://host/database."
            )
        if parts.password and not _VARIABLE.search(str(getattr(self.node, "value", ""))):
            raise self.error(
                f"`{self.key}` holds a password", "Write ${NAME} for it, or leave it to PGPASSWORD or ~/.pgpass."
            )
        return value

    def memory(self) -> str:
        value = self._expanded()
        if not _MEMORY.fullmatch(value):
            raise self.error(f"`{self.key}` must be an amount of memory", "Write for example `2g` or `800m`.")
        return value.lower()

    def count(self) -> int:
        value = self._expanded()
        if not value.isdecimal() or int(value) < 1:
            raise self.error(f"`{self.key}` must be a whole number of at least 1")
        return int(value)

    def flag(self) -> bool:
        value = self._expanded().lower()
        if value not in ("true", "false"):
            raise self.error(f"`{self.key}` must be `true` or `false`")
        return value == "true"

    def _expanded(self) -> str:
        import yaml

        if not isinstance(self.node, yaml.ScalarNode):
            raise self.error(f"`{self.key}` must be a single value")

        def value(match: re.Match[str]) -> str:
            escaped, name = match.groups()
            if escaped:
                return "${" + name + "}"
            if name not in os.environ:
                raise self.error(
                    f"`{self.key}` needs the environment variable `{name}`, which is not set",
                    f"Set it: export {name}=…",
                )
            return os.environ[name]

        return _VARIABLE.sub(value, str(self.node.value))

    def _is_null(self) -> bool:
        return self.node is not None and str(self.node.tag) == "tag:yaml.org,2002:null"

    def _name(self) -> str:
        return f"`{self.key}`" if self.key else FILE_NAME


def _nearest(word: str, valid: Iterable[str], kind: str) -> str:
    names = sorted(set(valid))
    close = difflib.get_close_matches(word, names, n=1)
    guess = f"Did you mean `{close[0]}`? " if close else ""
    return f"{guess}Valid {kind}: {', '.join(names)}."

"""mere.yaml: the project's name and, per profile, where the lake is, how it is reached and how Spark runs."""

from __future__ import annotations

import getpass
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from mere import sparkconfig
from mere.entries import Entry, nearest, read
from mere.errors import ConfigError
from mere.sparkconfig import SparkSettings, age, refuse_secret

FILE_NAME = "mere.yaml"
DEFAULT_PROFILE = "local"
LANDING = "landing"  # the folder in a lake on S3

_TOP = ("name", "vars", "defaults", "on_success", "on_failure", "profiles")
_DEFAULTS = ("schemas", "folders")
_HOOK = ("command", "post")
_PROFILE = ("lake", "catalog", "s3", "spark", "landing", "sources", "trino")
_LANDING = ("files", "keep")
_WHEREABOUTS = ("files", "url", "s3")
_S3_SECRETS = ("access_key", "secret_key", "session_token")
S3_KEYS = ("endpoint", "region", "path_style", *_S3_SECRETS)
KEYS = (*_TOP, *_DEFAULTS, *_HOOK, *_PROFILE, *_LANDING, *_WHEREABOUTS, *S3_KEYS, *sparkconfig.KEYS)


@dataclass(frozen=True)
class S3Settings:
    """How S3, or a server that speaks its language, is reached. Spark, PyIceberg, DuckDB and mere itself all take it
    from here, so that no two of them can disagree. It prints without the keys."""

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    endpoint: str | None = None  # None: AWS itself
    region: str = "us-east-1"
    path_style: bool | None = None  # None: what fits the endpoint
    vends: bool = False  # whether the server hands out the keys to users without restrictions

    @property
    def uses_path_style(self) -> bool:
        """Whether the bucket stands in the path and not in the host's name, which few servers but AWS's resolve."""
        return self.endpoint is not None if self.path_style is None else self.path_style

    @classmethod
    def from_environment(cls) -> S3Settings:
        """By the variables that AWS's own tools read."""
        return _s3(None)


@dataclass(frozen=True)
class LandingSettings:
    """Where the files of sources are kept as they came, and for how long; None: for ever."""

    location: str
    keep: timedelta | None = None


@dataclass(frozen=True)
class Whereabouts:
    """Where a source is under a profile, if it is not where the source itself says. Variables are as written."""

    location: str
    s3: S3Settings | None
    file: str
    line: int


@dataclass(frozen=True)
class Hook:
    """Whom to tell that a run ended: a command gets the run as JSON on its standard input, a web address by POST."""

    command: str | None = None
    post: str | None = field(default=None, repr=False)  # it may hold a token


@dataclass(frozen=True)
class Project:
    """One project under one profile. `path` is the mere.yaml itself."""

    name: str
    path: Path
    profile: str
    lake: str  # a folder, or s3://bucket/prefix
    # The URL of a Postgres database, password and all; None: a SQLite file in the lake's folder.
    catalog: str | None = field(repr=False)
    s3: S3Settings | None  # of a lake on S3
    spark: SparkSettings
    landing: LandingSettings | None = None
    sources: Mapping[str, Whereabouts] = field(default_factory=dict)  # by schema.table
    vars: Mapping[str, object] = field(default_factory=dict)  # what `{{ var('name') }}` is in a model
    on_success: Hook | None = None
    on_failure: Hook | None = None
    trino: str | None = None  # the address of a Trino that reads the lake


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
    top = read(path).keys(*_TOP)
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
            remedy=nearest(chosen, [*profiles, DEFAULT_PROFILE], "profiles"),
        )
    settings = profiles[chosen].entries() if chosen in profiles else {}
    lake = settings["lake"].text() if "lake" in settings else "lake"
    on_s3 = is_s3(lake)
    if on_s3 and "catalog" not in settings:
        raise settings["lake"].error(
            "a lake on S3 needs a `catalog`: its refs and commits are kept in a Postgres database",
            "Add a line such as `catalog: postgresql://host/database`.",
        )
    if not on_s3 and "s3" in settings:
        raise settings["s3"].error("`s3` has no effect: the lake is a folder", "Write `lake: s3://bucket/prefix`.")
    if not on_s3 and "spark" in settings and (signed := settings["spark"].entries().get("signed")):
        raise signed.error(f"`{signed.key}` has no effect: the lake is a folder", "Take the line out.")
    spark = sparkconfig.settings(settings.get("spark"))
    if not on_s3 and spark.master is not None and not sparkconfig.is_here(spark.master):
        raise (
            settings["spark"]
            .entries()["master"]
            .error(
                f"the workers of {spark.master} do not see the folder of this lake",
                "A cluster needs a lake on S3: `lake: s3://bucket/prefix`, with a `catalog`.",
            )
        )
    return Project(
        name=top["name"].text(),
        path=path,
        profile=chosen,
        lake=lake if on_s3 else str(path.parent / Path(lake).expanduser()),
        catalog=settings["catalog"].postgres_url() if "catalog" in settings else None,
        s3=_s3(settings.get("s3")) if on_s3 else None,
        spark=spark,
        landing=_landing(settings.get("landing"), path.parent, lake),
        sources=_whereabouts(settings.get("sources")),
        vars=_variables(top),
        on_success=_hook(top.get("on_success")),
        on_failure=_hook(top.get("on_failure")),
        trino=sparkconfig.address(settings["trino"], "of Trino", "https://host:8443") if "trino" in settings else None,
    )


def _landing(entry: Entry | None, folder: Path, lake: str) -> LandingSettings | None:
    """On S3 there is one unless it is switched off: a cluster reads nothing else."""
    on_s3 = is_s3(lake)
    usual = f"{lake.rstrip('/')}/{LANDING}" if on_s3 else None
    if entry is None:
        return LandingSettings(usual) if usual else None
    given = entry.entries() if entry.is_mapping else {"files": entry}
    place = given["files"].text() if "files" in given else usual
    if place == "off":
        return None
    if place is None or is_s3(place) != on_s3:
        raise entry.error(
            f"`{entry.key}` must be where the lake is: {'on S3' if on_s3 else 'a folder'}",
            f"Write {'s3://bucket/landing' if on_s3 else 'a folder, such as `landing`'}.",
        )
    keep = age(given["keep"]) if "keep" in given else None
    return LandingSettings(place.rstrip("/") if on_s3 else str(folder / Path(place).expanduser()), keep)


def _hook(entry: Entry | None) -> Hook | None:
    if entry is None:
        return None
    given = entry.keys(*_HOOK)
    if not given:
        raise entry.error(f"`{entry.key}` is empty", "Write `command:` or `post:` below it.")
    return Hook(**{key: value.text() for key, value in given.items()})


def variables(path: Path) -> Mapping[str, object]:
    """The `vars:` of a mere.yaml, which no profile and no environment variable changes."""
    return _variables(read(path).keys(*_TOP))


def defaults(path: Path) -> Entry | None:
    """The `defaults:` of a mere.yaml; what they mean, `mere.project.files.defaults` knows."""
    return read(path).keys(*_TOP).get("defaults")


def _variables(top: Mapping[str, Entry]) -> Mapping[str, object]:
    found = {}
    for name, entry in top["vars"].entries().items() if "vars" in top else ():
        found[name] = value = entry.value()
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, str | int | float | date):  # a bool is an int
                raise entry.error(f"`{entry.key}` must be a text, a number, a date, true or false, or a list of them")
    return found


def is_s3(location: str) -> bool:
    """Hadoop's names for the scheme, s3a and s3n, are in metadata that it has written."""
    return location.startswith(("s3://", "s3a://", "s3n://"))


def _check_profile(entry: Entry) -> None:
    keys = entry.keys(*_PROFILE)
    if "s3" in keys:
        check_s3(keys["s3"], "vend")
        if "vend" in (given := keys["s3"].entries()):
            given["vend"].choice("keys")
    _whereabouts(keys.get("sources"))
    if "spark" in keys:
        sparkconfig.check(keys["spark"])
    if "landing" in keys and keys["landing"].is_mapping:
        keys["landing"].keys(*_LANDING)


def _whereabouts(entry: Entry | None) -> dict[str, Whereabouts]:
    found = {}
    for name, value in entry.entries().items() if entry else ():
        given = value.keys(*_WHEREABOUTS)
        if ("files" in given) == ("url" in given):
            raise value.error(f"`{value.key}` must say where the source is", "Write `files:` or `url:` below it.")
        place = given.get("files") or given["url"]
        s3 = declared_s3(given["s3"]) if "s3" in given else None
        found[name] = Whereabouts(place.unexpanded(), s3, str(value.file), value.line)
    return found


def declared_s3(entry: Entry) -> S3Settings:
    """With its variables as written, and keys of "" where none are given: then the environment has them."""
    check_s3(entry)
    given = entry.keys(*S3_KEYS)
    words = {key: given[key].unexpanded() for key in S3_KEYS if key in given and key != "path_style"}
    style = given["path_style"].flag() if "path_style" in given else None
    return S3Settings(**{"access_key": "", "secret_key": "", **words}, path_style=style, vends=False)


def check_s3(entry: Entry, *more: str) -> None:
    given = entry.keys(*S3_KEYS, *more)
    for name in _S3_SECRETS:
        if name in given:
            refuse_secret(given[name])
    if ("access_key" in given) != ("secret_key" in given):
        raise entry.error("`access_key` and `secret_key` belong together", "Give both, or neither.")
    if "session_token" in given and "access_key" not in given:
        raise entry.error("`session_token` belongs to an `access_key`", "Give both, or neither.")


def _s3(entry: Entry | None) -> S3Settings:
    """What mere.yaml leaves open is taken from the environment; keys are taken whole from one or the other."""
    given = entry.entries() if entry else {}
    if "access_key" in given:
        keys = [given[name].text() if name in given else None for name in _S3_SECRETS]
    else:
        keys = [_environment(f"AWS_{name}") for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")]
    access_key, secret_key, session_token = keys
    if access_key is None or secret_key is None:
        raise ConfigError(
            "There are no keys for S3: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set.",
            remedy="Set them, or name other variables in mere.yaml: s3: {access_key: ${NAME}, secret_key: ${NAME}}."
            ' For a profile, SSO or a role of AWS: eval "$(aws configure export-credentials --format env)"',
        )
    endpoint = _endpoint(given.get("endpoint"))
    region = given["region"].text() if "region" in given else _environment("AWS_REGION", "AWS_DEFAULT_REGION")
    return S3Settings(
        access_key,
        secret_key,
        session_token,
        endpoint,
        region or S3Settings.region,
        given["path_style"].flag() if "path_style" in given else None,
        vends="vend" in given,
    )


def _endpoint(entry: Entry | None) -> str | None:
    name = next((name for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") if os.environ.get(name)), "")
    endpoint = entry.text() if entry else os.environ.get(name)
    if endpoint is None:
        return None
    parts = urlsplit(endpoint)
    extra = parts.username or parts.path.strip("/") or parts.query
    if parts.scheme not in ("http", "https") or not parts.hostname or extra:
        message, remedy = "is not the address of an S3 server", "Write https://host or http://host:port."
        raise (
            entry.error(f"`{entry.key}` {message}", remedy)
            if entry
            else ConfigError(f"{name} {message}", remedy=remedy)
        )
    return f"{parts.scheme}://{parts.netloc}"


def _environment(*names: str) -> str | None:
    return next((value for name in names if (value := os.environ.get(name))), None)

"""The `spark:` of a profile: how Spark is started, or where it runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

from mere.entries import VARIABLE, Entry
from mere.names import parse_age

_LOCAL = ("master", "memory", "cores", "ui", "ml", "keep_warm")
_REST = ("uri", "token", "signed")
KEYS = ("remote", *_LOCAL, "conf", "catalog", *_REST)
_MASTER = re.compile(r"yarn|spark://[^\s,/]+:\d+(?:,[^\s,/]+:\d+)*|k8s://(?:https?://)?[^\s/,]+(?:/\S*)?")
HERE = ("localhost", "127.0.0.1", "::1")

# Settings that only a launcher reads. The JVM is already running when Spark sees its conf, so they would
# be ignored without a word.
_LAUNCHER_CONFS = {
    "spark.driver.memory": "Set `memory:` beside `conf:` instead.",
    "spark.master": "Set `master:` beside `conf:` instead, or for this machine `cores:`.",
    "spark.ui.enabled": "Set `ui:` beside `conf:` instead.",
    "spark.jars.packages": "Download the jars and list the files in `spark.jars`.",
    "spark.jars.repositories": "Download the jars and list the files in `spark.jars`.",
}


@dataclass(frozen=True)
class RestSettings:
    """Spark comes to the lake over HTTP: at `uri`, or at a server that each session opens for itself. `signed`: it has
    no keys for S3, and that server signs its requests."""

    uri: str | None = None
    token: str | None = field(default=None, repr=False)
    signed: bool = False


@dataclass(frozen=True)
class SparkSettings:
    """How the local Spark session is started.

    `master` is the cluster that Spark runs on; None: this process. `cores` of None means all that this process may use,
    or that the cluster gives. `ml` puts Spark's machine-learning jars on the class
    path: they cost an eighth of the start-up, so they are left out unless asked for. `keep_warm` leaves an engine
    behind that ends when it was not used for so long. `remote` is a Spark Connect server of somebody else; then only
    `conf` counts, as far as it can be set in a session. Without `rest`, Spark is told where the catalog's database is,
    and its password.
    """

    memory: str = "2g"
    master: str | None = None
    cores: int | None = None
    ui: bool = False
    ml: bool = False
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)  # it may hold keys
    keep_warm: timedelta | None = None
    remote: str | None = None
    rest: RestSettings | None = None


def check(entry: Entry) -> None:
    """What can be said without the environment's variables."""
    given = entry.keys(*KEYS)
    if "conf" in given:
        _check_conf(given["conf"])
    _check_rest(given)
    if "remote" in given and (useless := next((name for name in _LOCAL if name in given), None)):
        raise given[useless].error(
            f"`{given[useless].key}` has no effect beside `remote`", "The operator of that server sets it."
        )


def refuse_secret(entry: Entry) -> None:
    """It has to be a variable, and nothing else."""
    variable = VARIABLE.fullmatch(str(getattr(entry.node, "value", "")))
    if variable is None or variable[1]:
        raise entry.error(f"`{entry.key}` holds a secret", "Write ${NAME} for it.")


def settings(entry: Entry | None) -> SparkSettings:
    if entry is None:
        return SparkSettings()
    given = entry.entries()
    default = SparkSettings()
    conf = given["conf"].entries() if "conf" in given else {}
    remote = _connect_url(given["remote"]) if "remote" in given else None
    return SparkSettings(
        master=_master(given["master"]) if "master" in given else None,
        memory=given["memory"].memory() if "memory" in given else default.memory,
        cores=given["cores"].count() if "cores" in given else default.cores,
        ui=given["ui"].flag() if "ui" in given else default.ui,
        ml=given["ml"].flag() if "ml" in given else default.ml,
        conf={key: value.text() for key, value in conf.items()},
        keep_warm=age(given["keep_warm"]) if "keep_warm" in given else None,
        remote=remote,
        rest=_rest(given, remote),
    )


def is_here(master: str) -> bool:
    """Whether the workers of such a master see the disks of this machine."""
    hosts = [each.rpartition(":")[0].strip("[]") for each in master.removeprefix("spark://").split(",")]
    return master.startswith("spark://") and all(host in HERE for host in hosts)


def _check_conf(entry: Entry) -> None:
    for key, value in entry.entries().items():
        if key in _LAUNCHER_CONFS:
            raise value.error(f"`{key}` has no effect here", _LAUNCHER_CONFS[key])
        if not key.startswith("spark."):
            raise value.error(f"`{key}` is not a Spark setting", "Their names begin with `spark.`.")


def _check_rest(spark: Mapping[str, Entry]) -> None:
    is_rest = "catalog" in spark and spark["catalog"].choice("jdbc", "rest") == "rest"
    if not is_rest and (useless := next((spark[name] for name in _REST if name in spark), None)):
        raise useless.error(
            f"`{useless.key}` has no effect without `catalog: rest`", "Write `catalog: rest` beside it."
        )
    if "token" in spark:
        refuse_secret(spark["token"])
        if "uri" not in spark:
            raise spark["token"].error(
                f"`{spark['token'].key}` has no effect without `uri`", "A session's own server has tokens of its own."
            )


def _rest(given: Mapping[str, Entry], remote: str | None) -> RestSettings | None:
    if "catalog" not in given or given["catalog"].text() != "rest":
        return None
    uri = address(given["uri"], "of a REST catalog", "https://host:8181/iceberg") if "uri" in given else None
    if uri is None and remote is not None and urlsplit(remote.replace("sc://", "http://", 1)).hostname not in HERE:
        raise given["catalog"].error(
            f"`{given['catalog'].key}` needs a `uri`: the Spark at `remote` cannot reach a server that a session opens"
            " on this machine",
            "Serve the lake (mere serve), and write its address: uri: https://host:8181/iceberg",
        )
    token = given["token"].text() if "token" in given else None
    if uri is not None and token is not None and uri.startswith("http://") and urlsplit(uri).hostname not in HERE:
        raise given["uri"].error(
            f"`{given['uri'].key}` would send the token in plain text", "Write https://host/iceberg."
        )
    return RestSettings(uri, token, given["signed"].flag() if "signed" in given else False)


def address(entry: Entry, of: str, example: str) -> str:
    """Over HTTP, and without a secret in it."""
    uri = entry.text()
    try:
        parts = urlsplit(uri)
        fits = parts.scheme in ("http", "https") and parts.hostname and not parts.query and parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        raise entry.error(f"`{entry.key}` is not the address {of}", f"Write {example}.")
    if parts.username is not None:
        raise entry.error(f"`{entry.key}` holds a secret", f"Write it without: {example}.")
    return uri.rstrip("/")


def _master(entry: Entry) -> str:
    url = entry.text()
    if url.startswith("local"):
        raise entry.error(
            f"`{entry.key}` is for a cluster", "Take the line out; for fewer cores of this machine: `cores: 2`."
        )
    if "@" in url:
        raise entry.error(f"`{entry.key}` holds a secret", "Leave it out: Kubernetes' own files have it.")
    if not _MASTER.fullmatch(url):
        raise entry.error(
            f"`{entry.key}` is not the address of a master of Spark",
            "Write spark://host:7077, k8s://https://host:6443 or yarn.",
        )
    return url


def age(entry: Entry) -> timedelta:
    found = parse_age(entry.text())
    if not found:
        raise entry.error(f"`{entry.key}` must be a length of time", "Write for example `10m` or `1h`.")
    return found


def _connect_url(entry: Entry) -> str:
    url = entry.text()
    parts = urlsplit(url.replace("sc://", "http://", 1))  # it knows no parameters of other schemes
    try:
        port = parts.port
    except ValueError:
        port = -1
    if not url.startswith("sc://") or not parts.hostname or port == -1:
        raise entry.error(f"`{entry.key}` is not the address of a Spark Connect server", "Write sc://host:port.")
    if "token=" in url.lower() or parts.username:
        raise entry.error(f"`{entry.key}` holds a secret", "Leave it to the variable SPARK_CONNECT_AUTHENTICATE_TOKEN.")
    return url

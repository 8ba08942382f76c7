"""mere engine start --shared, and what the other commands show of such an engine."""

from __future__ import annotations

import signal
import time
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from mere.cli.output import Age, Command, open_lake, print_json, say, spark_settings
from mere.cli.service.user import users_option, users_path
from mere.engine.front import PORT, Terms
from mere.engine.jvm.jars import AWS, HADOOP, needed
from mere.engine.warm import engine as warm
from mere.engine.warm.discovery import Engine
from mere.errors import UsageError
from mere.lake.lake import Lake
from mere.sparkconfig import SparkSettings
from mere.text.words import counted, size
from mere.windows import stamp

_GLANCE = 0.5
_UI_PORT = "spark.ui.port"


@dataclass(frozen=True)
class Asked:
    host: str
    port: int
    tls_cert: Path | None
    tls_key: Path | None
    tokens: bool
    users: Path | None
    ui_port: int
    monitor_port: int | None
    grace: timedelta
    foreground: bool


def shared_option(command: Command) -> Command:
    return click.option("--shared", is_flag=True, help="The engine that several users share.")(command)


def shared_options(command: Command) -> Command:
    port = click.IntRange(0, 65535)
    options = (
        click.option("--shared", is_flag=True, help="Serve Spark Connect to several users: see below."),
        click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on."),
        click.option("--port", type=port, default=PORT, show_default=True, help="0: any free port."),
        click.option("--tls-cert", type=click.Path(path_type=Path), help="The server's certificate (PEM)."),
        click.option("--tls-key", type=click.Path(path_type=Path), help="Its private key (PEM)."),
        click.option("--tokens", is_flag=True, help="Ask everybody for a token (mere token), not only other machines."),
        users_option,
        click.option("--ui-port", type=port, default=4040, show_default=True, help="Of Spark's web UI. 0: none."),
        click.option("--monitor-port", type=port, help="Serve /health and /metrics on this port."),
        click.option(
            "--grace",
            type=Age(),
            default="1m",
            show_default=True,
            metavar="AGE",
            help="For queries that run at its end.",
        ),
        click.option("--foreground", is_flag=True, help="Stay until it ends; Ctrl-C or SIGTERM stops it."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def asked_of(ctx: click.Context, options: dict[str, Any]) -> Asked | None:
    """What is asked of a shared engine; None if it is not to be one."""
    if options.pop("shared"):
        return Asked(**options)
    given = (name for name in options if ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE)
    if (useless := next(given, None)) is not None:
        raise UsageError(
            f"--{useless.replace('_', '-')} has no effect: nobody else uses the warm engine.",
            remedy="For an engine that several users share: mere engine start --shared",
        )
    return None


def start_shared(ctx: click.Context, asked: Asked, as_json: bool) -> None:
    _require_safe(asked)
    settings = _settings(spark_settings(ctx), asked)
    lake = open_lake(ctx)
    drivers = needed(lake.spark_catalog(rest=settings.rest).properties)
    if AWS in drivers:  # runs of others have the files of their sources there
        drivers = (*drivers, *HADOOP)
    terms = _terms(ctx, asked)
    found, new = warm.share(lake.location, settings, drivers, warm.Shared(terms, asked.grace))
    if as_json:
        print_json({**_json(found), "tokens": terms.tokens is not None, "started": new})
    else:
        _tell(found, new, terms)
    if asked.foreground:
        _stay(lake.location, found)


def _require_safe(asked: Asked) -> None:
    from mere.serve.postgres.server import loopback

    if (asked.tls_cert is None) != (asked.tls_key is None):
        raise UsageError("TLS needs both a certificate and its key.", remedy="Give --tls-cert and --tls-key.")
    if asked.tls_cert is None and not loopback(asked.host):
        raise UsageError(
            f"Other machines can reach {asked.host}: so clients must use TLS and tokens.",
            remedy="Give --tls-cert and --tls-key. Create tokens with: mere token create NAME",
        )


def _settings(settings: SparkSettings, asked: Asked) -> SparkSettings:
    if settings.remote is not None:
        raise UsageError(
            f"This profile uses the Spark at {settings.remote}: there is none to share here.",
            remedy="Choose a profile without `remote`: mere --profile NAME engine start --shared",
        )
    conf = {**settings.conf, _UI_PORT: str(asked.ui_port)} if asked.ui_port else settings.conf
    return replace(settings, ui=asked.ui_port != 0, conf=conf)


def _terms(ctx: click.Context, asked: Asked) -> Terms:
    from mere.serve.access.tokens import Tokens
    from mere.serve.postgres.server import loopback

    options = ctx.find_root().obj
    tokens = None
    if asked.tokens or not loopback(asked.host):
        users = users_path(ctx, asked.users)
        if users is None:
            raise UsageError(
                "There is no mere.yaml beside which the tokens are kept.", remedy="Name a file: --users FILE"
            )
        tokens = Tokens.beside(users)
        if not Tokens(tokens).all():
            raise UsageError("Nobody has a token.", remedy="Create one: mere token create NAME")
    certificate, key, file = (
        str(each.absolute()) if each else None for each in (asked.tls_cert, asked.tls_key, tokens)
    )
    return Terms(
        asked.host,
        asked.port,
        certificate,
        key,
        file,
        monitor_port=asked.monitor_port,
        profile=options["profile"],
        lake=options["lake"],
    )


def _tell(found: Engine, new: bool, terms: Terms) -> None:
    say(f"the shared engine is {'running' if new else 'already running'}: process {found.pid}")
    say(f"  {found.front}{_with_token(found, terms)}")
    if found.ui is not None:
        say(f"  {found.ui}  (Spark's web UI, on this machine)")
    if found.monitor is not None:
        say(f"  {found.monitor}")
    if terms.tokens is None:
        say("  Everyone on this machine can use it, with the rights of this user. To ask for tokens: --tokens")


def _with_token(found: Engine, terms: Terms) -> str:
    if terms.tokens is None:
        return ""
    return f"{'' if ';' in str(found.front) else '/'};token=…"


def _stay(location: str, found: Engine) -> None:
    """As a service manager expects it of what it has started."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    try:
        while warm.running(location, shared=True) == found:
            time.sleep(_GLANCE)
    except KeyboardInterrupt:
        warm.stop_shared(location)


def show_shared(lake: Lake, as_json: bool) -> None:
    found = warm.running(lake.location, shared=True)
    if found is None:
        _tell_of_none(warm.dead(lake.location, shared=True), as_json)
        return
    sessions, running = warm.usage(lake.location, shared=True)
    health = warm.health(lake.location, found, shared=True)
    users = Counter(user for user, _ in sessions)
    if as_json:
        answers = {"answers": health.failure is None, "failure": health.failure}
        print_json({**_json(found), "sessions": dict(users), "queries": running, **answers})
        return
    say(f"{found.front}: process {found.pid}, since {stamp(datetime.fromisoformat(found.since))}")
    whose = ", ".join(f"{user or 'nobody'} {count}" for user, count in sorted(users.items()))
    said = f"{counted(len(sessions), 'session')}{f' ({whose})' if whose else ''}"
    say(f"{said}, {counted(running, 'query', 'queries')} running")
    if health.failure is None:
        memory = health.pulse and f"; memory {size(health.pulse.heap)} of {size(health.pulse.heap_limit)}"
        say(f"answers in {health.seconds:.1f} s{memory or ''}")
    else:
        say(health.failure, "red")
    for address in filter(None, (found.ui, found.monitor)):
        say(address)


def _tell_of_none(dead: Engine | None, as_json: bool) -> None:
    if as_json:
        died = {"died": {"pid": dead.pid, "failure": dead.failure, "log": dead.log}} if dead else {}
        print_json({"running": False, **died})
    elif dead is None:
        say("no shared engine; start one: mere engine start --shared")
    else:
        say(f"no shared engine: process {dead.pid} ended, because {dead.failure or 'it was killed'}", "yellow")
        say(f"its log: {dead.log}")


def _json(found: Engine) -> dict[str, Any]:
    return {
        "running": True,
        "pid": found.pid,
        "url": found.front,
        "ui": found.ui,
        "monitor": found.monitor,
        "since": found.since,
        "log": found.log,
    }

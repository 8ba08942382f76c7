"""mere engine start, status, url, stop."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import click

from mere.cli.output import Age, example, json_option, open_lake, print_json, say, spark_settings
from mere.cli.service.shared import asked_of, shared_option, shared_options, show_shared, start_shared
from mere.engine.jvm.jars import needed
from mere.engine.warm import engine as warm
from mere.engine.warm.discovery import Engine
from mere.engine.warm.pulse import Pulse
from mere.errors import EngineError, UsageError
from mere.lake.lake import Lake
from mere.sparkconfig import SparkSettings
from mere.text.words import counted, size
from mere.windows import stamp


@click.group(epilog=example("mere engine start", "mere engine status", "mere engine stop"))
def engine() -> None:
    """Keep Spark warm for the next command.

    The engine is a server on this machine, for this lake and this user alone. A run, a test or a session that finds it
    starts at once. It stops by itself when unused for a while.

    With --shared, it is a Spark Connect server for several users, in which every ref is a catalog.
    """


@engine.command(
    epilog=example(
        "mere engine start",
        "mere engine start --idle 1h",
        "mere engine start --shared --port 15002",
        "mere engine start --shared --host 0.0.0.0 --tls-cert server.crt --tls-key server.key",
    )
)
@click.option("--idle", type=Age(), metavar="AGE", help="Stop when unused for this long. [keep_warm, or 10m]")
@shared_options
@json_option
@click.pass_context
def start(ctx: click.Context, /, idle: timedelta | None, as_json: bool, **options: Any) -> None:
    """Start the lake's engine, unless it is running. Replaces one with other settings that nobody uses.

    With --shared, it is one for several users, to which all options but --idle belong. It runs until it is stopped. To
    serve other machines, use --host; that needs TLS and tokens.
    """
    if idle == timedelta(0):
        raise UsageError("--idle must be longer than 0s.", remedy="To stop the engine: mere engine stop")
    if (asked := asked_of(ctx, options)) is not None:
        if idle is not None:
            raise UsageError("A shared engine runs until it is stopped.", remedy="Leave out --idle.")
        start_shared(ctx, asked, as_json)
        return
    lake, settings = open_lake(ctx), spark_settings(ctx)
    if settings.remote is not None:
        raise UsageError(
            f"This lake is built by the Spark at {settings.remote}: there is no engine to keep warm here.",
            remedy="Take `remote` out of mere.yaml, or choose another profile.",
        )
    drivers = needed(lake.spark_catalog(rest=settings.rest).properties)
    found, new = warm.start(lake.location, settings, drivers, idle or settings.keep_warm or warm.IDLE)
    if as_json:
        print_json({**_json(lake, found, settings), "started": new})
    elif new:
        say(f"the warm engine is running: process {found.pid}, ends when not used for {_idle(found)}")
    else:
        since = stamp(_since(found))
        say(
            f"the warm engine is already running: process {found.pid}, since {since},"
            f" ends when not used for {_idle(found)}"
        )


@engine.command(epilog=example("mere engine status", "mere engine status --shared", "mere engine status --json"))
@shared_option
@json_option
@click.pass_context
def status(ctx: click.Context, shared: bool, as_json: bool) -> None:
    """Show whether the warm engine answers, who uses it, and whether the next session can.

    Gives the engine a small job. The next session replaces one that does not answer or has died.
    """
    lake, settings = open_lake(ctx), spark_settings(ctx)
    if shared:
        show_shared(lake, as_json)
        return
    found = warm.running(lake.location)
    if found is None:
        _tell_of_none(warm.dead(lake.location), as_json)
        return
    used = len(warm.sessions(lake.location))
    health = warm.health(lake.location, found)
    if as_json:
        print_json({**_json(lake, found, settings), "sessions": used, **_health_json(health)})
        return
    use = f"{counted(used, 'session')}, ends when not used for {_idle(found)}"
    say(f"process {found.pid}, since {stamp(_since(found))}, {use}")
    if health.failure is None:
        say(f"answers in {health.seconds:.1f} s{_uses(health.pulse)}")
    else:
        say(f"{health.failure} The next session replaces it, if nobody else uses it.", "red")
    if found.ui is not None:
        say(f"Spark's web UI: {found.ui}")
    if (difference := _difference(lake, found, settings)) is not None:
        say(f"not used from here: it was started with another {difference}", "yellow")


def _tell_of_none(dead: Engine | None, as_json: bool) -> None:
    if as_json:
        died = {"died": {"pid": dead.pid, "failure": dead.failure, "log": dead.log}} if dead else {}
        print_json({"running": False, **died})
    elif dead is None:
        say("no warm engine; start one: mere engine start")
    else:
        why = dead.failure or "it was killed"
        say(f"no warm engine: process {dead.pid} ended, because {why}; the next session starts a new one", "yellow")
        say(f"its log: {dead.log}")


def _uses(pulse: Pulse | None) -> str:
    if pulse is None:
        return ""
    heap, code = (
        f"{size(used)} of {size(limit)}"
        for used, limit in ((pulse.heap, pulse.heap_limit), (pulse.code, pulse.code_limit))
    )
    return f"; memory {heap}, compiled code {code}"


def _health_json(health: warm.Health) -> dict[str, Any]:
    pulse = health.pulse
    return {
        "answers": health.failure is None,
        "failure": health.failure,
        "answer_seconds": round(health.seconds, 3),
        "heap_bytes": pulse and pulse.heap,
        "heap_limit_bytes": pulse and pulse.heap_limit,
        "code_bytes": pulse and pulse.code,
        "code_limit_bytes": pulse and pulse.code_limit,
    }


@engine.command(epilog=example("mere engine url", "SPARK_REMOTE=$(mere engine url) python report.py"))
@json_option
@click.pass_context
def url(ctx: click.Context, as_json: bool) -> None:
    """Print the address of the warm engine for other programs, with its token.

    Whatever speaks Spark Connect can use it: every ref is a catalog there. Keep the address to yourself: whoever has it
    works in your name, as long as the engine runs.
    """
    lake = open_lake(ctx)
    found = warm.running(lake.location)
    if found is None:
        raise EngineError("No warm engine runs for this lake.", remedy="Start one: mere engine start")
    options = ctx.find_root().obj
    found = warm.front_of(lake.location, found, options["profile"], options["lake"])
    address = f"{found.front}/;token={found.secret}"
    if as_json:
        print_json({"url": address, "ui": found.ui})
    else:
        click.echo(address)


@engine.command(epilog=example("mere engine stop", "mere engine stop --now", "mere engine stop --shared"))
@shared_option
@click.option("--now", is_flag=True, help="Stop it even if it is in use: whatever runs on it fails.")
@json_option
@click.pass_context
def stop(ctx: click.Context, shared: bool, now: bool, as_json: bool) -> None:
    """Stop the lake's engine, if it is running.

    A shared one takes no new queries from then on, and ends when those that run have ended, or after its --grace.
    """
    location = open_lake(ctx).location
    ended = warm.stop_shared(location, now=now) if shared else warm.stop(location, now=now)
    name = "shared engine" if shared else "warm engine"
    if as_json:
        print_json({"stopped": ended is not None, "pid": ended.pid if ended else None})
    else:
        say(f"the {name} was stopped: process {ended.pid}" if ended else f"no {name}")


def _json(lake: Lake, found: Engine, settings: SparkSettings) -> dict[str, Any]:
    """Without the token."""
    return {
        "running": True,
        "pid": found.pid,
        "address": found.address,
        "since": found.since,
        "idle_seconds": found.idle,
        "sessions": len(warm.sessions(lake.location)),
        "log": found.log,
        "ui": found.ui,
        "differs_in": _difference(lake, found, settings),
    }


def _difference(lake: Lake, found: Engine, settings: SparkSettings) -> str | None:
    return found.differs(warm.wanted(settings, needed(lake.spark_catalog(rest=settings.rest).properties)))


def _since(found: Engine) -> datetime:
    return datetime.fromisoformat(found.since)


def _idle(found: Engine) -> str:
    seconds = round(found.idle)
    unit, size = next((each for each in (("h", 3600), ("m", 60)) if seconds % each[1] == 0), ("s", 1))
    return f"{seconds // size}{unit}"

"""mere serve."""

from __future__ import annotations

import asyncio
import io
import os
import resource
import sys
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from mere import config, private
from mere.cli import logs
from mere.cli.output import Age, example, json_option, open_lake, open_project, print_json, say
from mere.cli.service.user import roles_option, shown_schemas, users_option
from mere.errors import ConfigError, UsageError
from mere.text.words import counted

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from mere.api.project import Project
    from mere.lake.lake import Lake
    from mere.serve.access.roles import Declared, Roles
    from mere.serve.access.tokens import Tokens
    from mere.serve.access.users import Users
    from mere.serve.protocol.port import Backend
    from mere.serve.session.endpoint import Endpoint

PORT = 5439
HTTP_PORT = 8181
_FILES = 500  # open ones besides those of clients


@click.command(
    epilog=example(
        "mere serve --trust",
        "mere user add ann && mere serve",
        "mere serve --host 0.0.0.0 --tls-cert server.crt --tls-key server.key",
        "mere serve --roles roles.yaml --check",
    )
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0: any free port.")
@click.option("--tls-cert", type=click.Path(path_type=Path), help="The server's certificate (PEM).")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its private key (PEM).")
@click.option("--trust", is_flag=True, help="Let everyone on this machine in without a password.")
@users_option
@click.option(
    "--workers", type=click.IntRange(min=1), default=4, show_default=True, help="How many queries run at once."
)
@click.option("--user-workers", type=click.IntRange(min=1), help="How many of one user run at once. [all but one]")
@click.option("--max-connections", type=click.IntRange(min=1), default=1000, show_default=True, help="Clients at once.")
@click.option(
    "--user-connections", type=click.IntRange(min=1), help="How many of these one user may have. [nine tenths]"
)
@click.option(
    "--max-logins", type=click.IntRange(min=1), default=100, show_default=True, help="Clients logging in at once."
)
@click.option(
    "--address-logins",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="How many of these may come from one address.",
)
@roles_option
@click.option("--memory", metavar="SIZE", help="For all queries together, such as 4GB. [four fifths of the machine's]")
@click.option("--spill", metavar="SIZE", default="10GB", show_default=True, help="How much queries may spill to disk.")
@click.option(
    "--idle-timeout",
    type=Age(),
    default="1h",
    show_default=True,
    metavar="AGE",
    help="Disconnect clients that are silent for this long. 0s: never.",
)
@click.option(
    "--flight-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Also serve Arrow Flight SQL on this port. 0: do not.",
)
@click.option(
    "--http-port",
    type=click.IntRange(0, 65535),
    default=HTTP_PORT,
    show_default=True,
    help="Serve the Iceberg REST catalog on this port. 0: do not.",
)
@click.option("--monitor-port", type=click.IntRange(0, 65535), help="Serve /health and /metrics on this port.")
@click.option(
    "--audit", type=click.Path(allow_dash=True), default="-", help="Where to log statements. [standard error]"
)
@click.option("--audit-values", is_flag=True, help="Include the literals of statements in the log.")
@click.option("--check", is_flag=True, help="Only check whether it would start. Exits with 1 if not.")
@json_option
@click.pass_context
def serve(
    ctx: click.Context,
    host: str,
    port: int,
    tls_cert: Path | None,
    tls_key: Path | None,
    trust: bool,
    users: Path | None,
    workers: int,
    user_workers: int | None,
    max_connections: int,
    user_connections: int | None,
    max_logins: int,
    address_logins: int,
    roles: Path | None,
    memory: str | None,
    spill: str,
    idle_timeout: timedelta,
    flight_port: int,
    http_port: int,
    monitor_port: int | None,
    audit: str,
    audit_values: bool,
    check: bool,
    as_json: bool,
) -> None:
    """Serve the lake to Postgres clients and Iceberg engines.

    Any Postgres client can read it; any engine can read and write it through an Iceberg REST catalog. The database, or
    the warehouse, is the ref: main, dev, main@2h.

    The Postgres side is read-only. To serve other machines, use --host; that needs TLS and users with passwords.
    """
    from mere.serve.access import tls
    from mere.serve.access.limits import Resources
    from mere.serve.postgres import allocator
    from mere.serve.postgres.server import Server, Settings
    from mere.serve.postgres.startup import Policy
    from mere.serve.session.backend import LakeBackend
    from mere.serve.session.log import Log

    _require_safe(host, tls_cert, tls_key, trust)
    known, tokens = _let_in(ctx, users, trust)
    context, binding = tls.context(tls_cert, tls_key) if tls_cert and tls_key else (None, None)
    settings = Settings(
        host,
        port,
        workers,
        user_workers,
        max_connections,
        user_connections,
        max_logins,
        address_logins,
        idle_seconds=idle_timeout.total_seconds() or None,
        monitor_port=monitor_port,
    )
    _make_room_for(2 * max_connections)
    logs.to_stderr()
    allocator.keep_freed()
    lake = open_lake(ctx)
    if check:
        _check(ctx, lake, roles, known, tokens, as_json)
        return
    with ExitStack() as stack:
        log = Log(_file(stack, audit), values=audit_values)
        declared = _roles(lake, roles, known) if roles else None
        backend = LakeBackend(lake, declared, Resources(memory, spill, firm=True))
        stack.callback(backend.close)
        beside = [_flight(backend, known, host, flight_port, tls_cert, tls_key)] if flight_port else []
        beside += [_http(ctx, lake, known, tokens, declared, host, http_port, context)] if http_port else []
        server = Server(backend, Policy(known, context, binding), settings, log, beside=beside)

        def started(port: int, monitor: int | None) -> None:
            ports = {"port": port, "flight_port": flight_port or None, "http_port": http_port or None}
            _tell(host, {**ports, "monitor_port": monitor}, context is not None, trust, as_json)

        try:
            asyncio.run(server.run(started))
        except OSError as error:
            raise ConfigError(
                f"Cannot listen on {host}:{port}: {error.strerror or error}.",
                remedy="Choose another port: mere serve --port 0",
            ) from error
    if any(each.held for each in beside):
        # gRPC would keep the process for the sake of its client.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _require_safe(host: str, tls_cert: Path | None, tls_key: Path | None, trust: bool) -> None:
    from mere.serve.postgres.server import loopback

    if (tls_cert is None) != (tls_key is None):
        raise UsageError("TLS needs both a certificate and its key.", remedy="Give --tls-cert and --tls-key.")
    if not loopback(host) and (tls_cert is None or trust):
        raise UsageError(
            f"Other machines can reach {host}: so clients must use TLS and a password.",
            remedy="Give --tls-cert and --tls-key, without --trust. Add users with: mere user add NAME",
        )


def _let_in(ctx: click.Context, given: Path | None, trust: bool) -> tuple[Users | None, Tokens | None]:
    """No users: everybody on this machine."""
    from mere.cli.service.user import users_file, users_path
    from mere.serve.access.tokens import Tokens

    users = None if trust else users_file(ctx, given)
    path = users.path if users is not None else users_path(ctx, given)
    tokens = Tokens(Tokens.beside(path)) if path is not None else None
    if users is not None and not users.names() and not (tokens and tokens.all()):
        raise UsageError(
            "No user can log in.",
            remedy="Add one: mere user add NAME. Or let everyone on this machine in: mere serve --trust",
        )
    return users, tokens


def _roles(lake: Lake, file: Path, users: Users | None) -> Roles:
    """What would show nothing, or more than is meant, keeps the server from starting."""
    from mere.serve.roles import check as rolecheck
    from mere.serve.roles import file as rolefile

    def check(declared: Declared) -> None:
        found = rolecheck.check(declared, lake, users.names() if users else None)
        found.raise_problems()
        for note in found.notes:
            click.echo(f"note: {note}", err=True)

    return rolefile.RoleFile(file, check)


def _check(
    ctx: click.Context, lake: Lake, file: Path | None, users: Users | None, tokens: Tokens | None, as_json: bool
) -> None:
    from mere.serve.roles import check as rolecheck
    from mere.serve.roles import file as rolefile

    names = users.names() if users else None
    try:
        declared = rolefile.load(file) if file else None
        found = rolecheck.check(declared, lake, names) if declared else rolecheck.Found()
        found.notes += rolecheck.of_tokens(declared, tokens.all() if tokens else ())
    except ConfigError as error:
        found = rolecheck.Found([error])
    if as_json:
        problems = [
            {"file": each.file, "line": each.line, "message": each.problem, "remedy": each.remedy}
            for each in found.problems
        ]
        writes = {
            role: {"refs": each.refs, "schemas": each.schemas, "publish": each.publish}
            for role, each in found.writes.items()
        }
        print_json({"ok": not problems, "problems": problems, "notes": found.notes, "users": names, "writes": writes})
    else:
        for problem in found.problems:
            click.echo(f"error: {problem}")
        for note in found.notes:
            click.echo(f"note: {note}")
        for role, each in found.writes.items():
            into = f", and publishes into {', '.join(each.publish)}" if each.publish else ""
            say(f"{role} writes {shown_schemas(each.schemas)} on {', '.join(each.refs)}{into}")
        say(counted(len(found.problems), "problem") if found.problems else "It would start.")
    if found.problems:
        ctx.exit(1)


def _make_room_for(clients: int) -> None:
    """Each is an open file, of which a process may have some 1,000 if it does not ask for more."""
    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = clients + _FILES
    if few != resource.RLIM_INFINITY and few < wanted:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most)
        )


def _flight(
    backend: Backend, users: Users | None, host: str, port: int, certificate: Path | None, key: Path | None
) -> Endpoint:
    from mere.serve.flight.server import FlightEndpoint

    pair = (certificate.read_bytes(), key.read_bytes()) if certificate and key else None
    return FlightEndpoint(backend, users, host, port, pair)


def _http(
    ctx: click.Context,
    lake: Lake,
    users: Users | None,
    tokens: Tokens | None,
    roles: Roles | None,
    host: str,
    port: int,
    context: ssl.SSLContext | None,
) -> Endpoint:
    from mere.serve.api import routes as api
    from mere.serve.http.server import HttpEndpoint
    from mere.serve.iceberg import routes as iceberg

    return HttpEndpoint(
        [iceberg.mounted(lake), api.mounted(lake, _project(ctx))], users, roles, host, port, context, tokens
    )


def _project(ctx: click.Context) -> Project | None:
    """The one that it is started in: a lake that was named by its place may be another's."""
    if ctx.find_root().obj["lake"] or config.find_project(Path.cwd()) is None:
        return None
    return open_project(ctx, with_lake=False)


def _file(stack: ExitStack, audit: str) -> IO[str]:
    if audit == "-":
        return sys.stderr
    try:
        return stack.enter_context(io.TextIOWrapper(private.appended(Path(audit)), encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"The audit log cannot be written to {audit}: {error.strerror}.") from error


def _tell(host: str, ports: Mapping[str, int | None], tls: bool, trust: bool, as_json: bool) -> None:
    shown = {"0.0.0.0": "localhost", "::": "localhost"}.get(host, host)
    rest = "?sslmode=require" if tls else ""
    url = f"postgresql://{'' if trust else 'USER@'}{shown}:{ports['port']}/main{rest}"
    if as_json:
        print_json({"host": host, **ports, "tls": tls, "url": url})
    else:
        say(f"The lake is served at {host}:{ports['port']}. The name of the database is the ref:")
        say(f"  psql {url!r}" if "?" in url else f"  psql {url}")
        if (flight := ports["flight_port"]) is not None:
            say(f"  {'grpc+tls' if tls else 'grpc'}://{shown}:{flight}  (Arrow Flight SQL)")
        if (http := ports["http_port"]) is not None:
            scheme = "https" if tls else "http"
            say(f"  {scheme}://{shown}:{http}/iceberg  (Iceberg REST catalog; the warehouse is the ref)")
            say(f"  {scheme}://{shown}:{http}/api/v1  (the verbs of the lake; openapi.json in it describes them)")
        if (monitor := ports["monitor_port"]) is not None:
            say(f"  http://{shown}:{monitor}/health  /metrics")
        say("Ctrl-C ends it.")
    sys.stdout.flush()

"""A lake's warm engine: a Spark Connect server for this user on this machine, kept for the next command."""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mere.config import default_author
from mere.engine import client
from mere.engine.connect import Connection
from mere.engine.front import Terms
from mere.engine.jvm.classpath import identity
from mere.engine.jvm.jars import Jar
from mere.engine.jvm.process import prepare
from mere.engine.translate import explain, is_from_spark, log_at
from mere.engine.warm.discovery import PROBE, Engine, Place, hold, is_held
from mere.engine.warm.pulse import SILENCE, Pulse
from mere.errors import EngineError
from mere.sparkconfig import SparkSettings

IDLE = timedelta(minutes=10)
GRACE = timedelta(minutes=1)
_KEEPER = [sys.executable, "-m", "mere.engine.warm.keeper"]
# The first thing that an engine does takes long where the machine is short of everything.
ANSWER_SECONDS = 60.0
_STOP_SECONDS = 15
_SWITCH = "MERE_ENGINE"


@dataclass(frozen=True)
class Shared:
    """An engine for others, which ends when it is told to. `grace`: what runs may go on for so long then."""

    terms: Terms
    grace: timedelta = GRACE


class InUse(EngineError):
    """Sessions are open on the warm engine."""


class Ended(EngineError):
    """The warm engine has ended since it was found, or is about to."""


class NoAnswer(EngineError):
    """The warm engine is there, and does nothing."""


@dataclass(frozen=True)
class Health:
    seconds: float  # until it answered, or was given up
    failure: str | None  # a sentence, if it does not answer
    pulse: Pulse | None


# What a JVM takes from its environment.
_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_LOCAL_DIRS", "SPARK_LOCAL_IP", "PYSPARK_PYTHON", "TZ")


def wanted(settings: SparkSettings, drivers: Sequence[Jar] = ()) -> dict[str, str]:
    """All that a session takes from the process that started Spark, by what it is called when it differs."""
    launch = prepare(settings, drivers=drivers)
    conf = {name: value for name, value in asdict(settings).items() if name not in ("remote", "keep_warm", "rest")}
    parts = {
        "version of mere": _version("mere"),
        "version of Spark": _version("pyspark"),
        "Python": f"{sys.executable} {sys.version}",
        "Java": launch.java.identity(),
        "set of jars": identity(launch.jars),
        "set of settings": json.dumps(conf, sort_keys=True, default=str),
        "folder": str(Path.cwd()),
        "author": default_author(),
        "environment": json.dumps([os.environ.get(name) for name in _VARIABLES]),
    }
    return {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in parts.items()}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def running(location: str, *, shared: bool = False) -> Engine | None:
    """The lake's engine; what tells of none is removed."""
    place = Place.of(location, shared=shared)
    engine = place.engine()
    if engine is None:
        place.tidy()
    return engine


def dead(location: str, *, shared: bool = False) -> Engine | None:
    """The lake's engine if it died, and who wants one next replaces it."""
    return Place.of(location, shared=shared).dead()


def sessions(location: str) -> list[str]:
    """That are open on the lake's engine."""
    return Place.of(location).sessions()


def usage(location: str, *, shared: bool = False) -> tuple[list[tuple[str, str]], int]:
    """Of the engine's front, a moment ago: user and id of each session, and how many queries run."""
    place = Place.of(location, shared=shared)
    found = place.get(place.usage)
    listed, busy = found.get("sessions"), found.get("running")
    sessions = [(str(user), str(id_)) for user, id_ in listed] if isinstance(listed, list) else []
    return sessions, busy if isinstance(busy, int) else 0


def front_of(location: str, engine: Engine, profile: str | None, lake: str | None) -> Engine:
    """The engine, with an address and a secret for clients that mere has not started; made when first asked for."""
    place = Place.of(location)
    if engine.front is not None:
        return engine
    place.usage.unlink(missing_ok=True)
    place.put(place.wish, {"profile": profile, "lake": lake})

    def answered() -> bool:
        found = place.engine()
        return found is None or found.front is not None or "failure" in place.get(place.usage)

    _within(ANSWER_SECONDS, answered)
    found = place.engine()
    if found is None or found.front is None:
        why = place.get(place.usage).get("failure") or "it did not answer"
        raise EngineError(f"The warm engine has no address for others: {why}", remedy=f"Its log: {engine.log}")
    return found


def is_switched_off() -> bool:
    return os.environ.get(_SWITCH, "").lower() in ("off", "0", "false")


def is_expected(location: str, settings: SparkSettings) -> bool:
    """Whether a session on the lake would look for a warm engine."""
    if is_switched_off():
        return False
    return settings.keep_warm is not None or Place.of(location).file.is_file()


def health(location: str, engine: Engine, *, shared: bool = False) -> Health:
    """Asks the engine to do a little, which does not keep it from ending when nobody uses it."""
    client.load()  # its import is not the engine's time
    begun, failure = time.monotonic(), None
    try:
        session_id = str(uuid.uuid4())
        _connect(Place.of(location, shared=shared), engine, session_id, session_id + PROBE).close()
    except (Ended, NoAnswer) as exc:
        failure = exc.message
    return Health(time.monotonic() - begun, failure, Pulse.read(Place.of(location, shared=shared).pulse))


def find(location: str, settings: SparkSettings, drivers: Sequence[Jar] = ()) -> Engine | str:
    """The lake's engine if it fits; else why there is none, or nothing if none was to be expected.

    With `keep_warm` one is started if need be, and in place of one that died.
    """
    known = Place.of(location).file.is_file()
    engine = running(location)
    if engine is None:
        reason = "the warm engine has ended" if known else ""
    elif difference := engine.differs(wanted(settings, drivers)):
        reason = f"the warm engine was started with another {difference}"
    else:
        return engine
    fallen = dead(location)
    idle = settings.keep_warm or (timedelta(seconds=fallen.idle) if fallen else None)
    if idle is None:
        return reason
    try:
        return start(location, settings, drivers, idle)[0]
    except InUse:
        return f"{reason}, and is in use"


def connected(location: str, settings: SparkSettings, drivers: Sequence[Jar] = ()) -> tuple[Engine, Connection] | str:
    """A session on the lake's engine, which has answered; else why there is none. An engine that does not answer is
    replaced, unless others are waiting for it."""
    reason = ""
    for _ in range(2):
        engine = find(location, settings, drivers)
        if isinstance(engine, str):
            return engine
        try:
            return engine, connect(location, engine)
        except Ended:
            reason = "the warm engine has ended"
        except NoAnswer:
            try:
                _give_up(location, engine)
            except InUse:
                return "the warm engine does not answer, and is in use"
            reason = "the warm engine does not answer"
    return reason


def connect(location: str, engine: Engine) -> Connection:
    """A session on the engine, which has answered. It ends when the lock on its file is free: with this process, at
    the latest."""
    session_id = str(uuid.uuid4())
    return _connect(Place.of(location), engine, session_id, session_id)


def _connect(place: Place, engine: Engine, session_id: str, name: str) -> Connection:
    """`name`: of the file."""
    held = hold(place.clients / name)
    try:
        found = place.engine()  # see Place.withdraw
        if found is None or found.pid != engine.pid:
            raise Ended("The warm engine has ended.", remedy="Try again.")
        connection = Connection.to_engine(
            engine.address, engine.token, session_id, lambda: is_held(place.alive), lambda: os.close(held)
        )
    except BaseException:
        with suppress(OSError):
            os.close(held)
        raise
    try:
        connection.ask(ANSWER_SECONDS)
    except TimeoutError as exc:
        connection.close()
        raise NoAnswer(f"The warm engine did not answer for {ANSWER_SECONDS:.0f} s.") from exc
    except BaseException as exc:
        connection.close()
        if is_from_spark(exc):
            raise NoAnswer(f"The warm engine answers with an error: {explain(exc).message}") from exc
        raise
    connection.watch(place.pulse, SILENCE)
    log_at(Path(engine.log), of_server=True)
    return connection


def start(
    location: str, settings: SparkSettings, drivers: Sequence[Jar] = (), idle: timedelta = IDLE
) -> tuple[Engine, bool]:
    """An engine that fits, and whether it was started just now. One that does not fit makes place for it."""
    place = Place.of(location)
    fits = wanted(settings, drivers)
    with place.starting():
        engine = place.engine()
        if engine is not None and engine.differs(fits) is None:
            return engine, False
        if engine is not None:
            _make_way(place, engine, str(engine.differs(fits)))
        return _spawn(place, settings, drivers, idle.total_seconds(), fits), True


def share(location: str, settings: SparkSettings, drivers: Sequence[Jar], shared: Shared) -> tuple[Engine, bool]:
    """The engine of the lake that others use, and whether it was started just now."""
    place = Place.of(location, shared=True)
    fits = {**wanted(settings, drivers), "set of options": repr((asdict(shared.terms), shared.grace))}
    with place.starting():
        engine = place.engine()
        if engine is None:
            return _spawn(place, settings, drivers, math.inf, fits, shared), True
        if difference := engine.differs(fits):
            raise InUse(
                f"A shared engine is already running, at {engine.front}, with another {difference}.",
                remedy="Stop it first: mere engine stop --shared",
            )
        return engine, False


def _make_way(place: Place, engine: Engine, difference: str) -> None:
    if place.withdraw(engine):
        raise InUse(
            f"The warm engine was started with another {difference} and is in use.",
            remedy="Wait until it is free, or stop it: mere engine stop --now",
        )
    _end(place, engine)


def stop_shared(location: str, *, now: bool = False) -> Engine | None:
    """End the engine that others use; None if there was none. What runs may end first, unless it is to end `now`."""
    place = Place.of(location, shared=True)
    if not place.folder.is_dir():
        return None
    with place.starting():
        engine = place.engine()
        if engine is not None:
            if now:
                _signal(engine.pid, signal.SIGINT)
            _end(place, engine, math.inf if not now else _STOP_SECONDS)
        place.file.unlink(missing_ok=True)
        return engine


def stop(location: str, *, now: bool = False) -> Engine | None:
    """End the lake's engine; None if there was none. Only `now` ends it under its clients."""
    place = Place.of(location)
    if not place.folder.is_dir():
        return None
    with place.starting():
        engine = place.engine()
        busy = usage(location)[1]
        if engine is not None and not now and busy:
            raise InUse(
                f"The warm engine runs {busy} quer{'ies' if busy > 1 else 'y'} of another program. It was not stopped.",
                remedy="Wait until it is free, or stop it anyway: mere engine stop --now",
            )
        if engine is not None and not now and (used := len(place.withdraw(engine))):
            raise InUse(
                f"The warm engine is in use: {used} session{'s' if used > 1 else ''}. It was not stopped.",
                remedy="Wait until it is free, or stop it anyway: mere engine stop --now",
            )
        if engine is not None:
            _end(place, engine)
        place.file.unlink(missing_ok=True)
        return engine


def _give_up(location: str, engine: Engine) -> None:
    """End an engine that does not answer, and leave word of it."""
    place = Place.of(location)
    with place.starting():
        if place.engine() != engine:
            return  # somebody else was quicker
        if place.withdraw(engine):
            raise InUse("The warm engine does not answer, and is in use.", remedy="Stop it: mere engine stop --now")
        _kill(place, engine)
        place.write(replace(engine, failure="it did not answer"))


def _end(place: Place, engine: Engine, seconds: float = _STOP_SECONDS) -> None:
    # The engine holds its lock, so its process id is still its own.
    _signal(engine.pid, signal.SIGTERM, signal.SIGCONT)
    if not _within(seconds, lambda: not is_held(place.alive)):
        _kill(place, engine)


def _kill(place: Place, engine: Engine) -> None:
    """The JVM first: its keeper tidies up after it, if it can."""
    if _parent(engine.jvm) == engine.pid:
        _signal(engine.jvm, signal.SIGKILL)
    for numbers in ((signal.SIGTERM, signal.SIGCONT), (signal.SIGKILL,)):
        _signal(engine.pid, *numbers)
        if _within(_STOP_SECONDS, lambda: not is_held(place.alive)):
            return
    raise EngineError(f"The warm engine (process {engine.pid}) does not stop.", remedy=f"Its log: {engine.log}")


def _signal(pid: int, *numbers: signal.Signals) -> None:
    for number in numbers:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _parent(pid: int) -> int | None:
    """Of a process, whose number may be another's by now."""
    found = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return int(found.stdout) if found.stdout.strip().isdigit() else None


def _within(seconds: float, true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _spawn(
    place: Place,
    settings: SparkSettings,
    drivers: Sequence[Jar],
    idle: float,
    fits: Mapping[str, str],
    shared: Shared | None = None,
) -> Engine:
    """Start the keeper, detached from this process and its terminal, and wait for what it says."""
    order = {
        "folder": str(place.folder),
        "settings": asdict(replace(settings, remote=None, keep_warm=None, rest=None)),
        "drivers": [asdict(jar) for jar in drivers],
        "idle": idle,
        "fits": dict(fits),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
        "shared": shared and {"terms": asdict(shared.terms), "grace": shared.grace.total_seconds()},
    }
    process = subprocess.Popen(
        _KEEPER,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin
    assert process.stdout
    with suppress(BrokenPipeError):
        # What may hold keys goes through a pipe: a command line can be read by everybody.
        process.stdin.write(json.dumps(order).encode())
        process.stdin.close()
    with process.stdout as output:
        answer = output.read()  # until it closes its end: it is ready then, or dead
    process.wait()
    engine = place.engine()
    if engine is not None:
        return engine
    raise EngineError("The warm engine did not start" + (f": {answer.decode().strip()}" if answer else "."))

"""The process beside a warm engine's JVM: starts the Connect server, cleans up after clients, and stops both.

    python -m mere.engine.warm.keeper < order.json

`engine` starts it. The JVM ends with it, and it ends with the JVM.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from mere import private
from mere.engine import front
from mere.engine.connect import USER
from mere.engine.driver import Driver
from mere.engine.jvm import archive
from mere.engine.jvm.classpath import quiet_ml
from mere.engine.jvm.jars import Jar
from mere.engine.jvm.process import Jvm, prepare
from mere.engine.jvm.work import Work
from mere.engine.warm.discovery import PROBE, Engine, Place, hold
from mere.engine.warm.pulse import EVERY, Watch
from mere.errors import MereError
from mere.sparkconfig import SparkSettings

_GLANCE = 0.2  # seconds: how soon the session of a client that is gone ends
_RESTING = 60.0  # seconds after which a client of the front is not in the middle of something

# A worker that is used again has the modules of the project as they were when it imported them.
_FRESH_WORKERS = {"spark.python.worker.reuse": "false"}
# Nobody's queries wait until those of another have ended.
_FAIR = {
    "spark.scheduler.mode": "FAIR",
    "spark.scheduler.allocation.file": (Path(__file__).parent / "fairscheduler.xml").as_uri(),
}


class Keeper:
    def __init__(self, order: dict[str, Any]) -> None:
        self.place = Place(Path(order["folder"]))
        self.order = order
        self.token = secrets.token_urlsafe(32)
        self.over = threading.Event()
        self.hurry = threading.Event()  # whether what runs is cut off
        self.shared: dict[str, Any] | None = order.get("shared")
        self.front: front.Front | None = None

    def run(self) -> None:
        driver = self._started()
        _to_log(driver.log, 2)
        failure: str | None = "it could not continue"
        engine = None
        try:
            service = serve(driver)
            watch = Watch(driver.context, self.place.pulse)
            held = hold(self.place.alive)
            begun = self._engine(driver, service.localPort())
            if self.shared is not None:
                begun = self._with_front(begun, watch, front.Terms(**self.shared["terms"]))
            engine = begun
            self.place.write(engine)
            _to_log(driver.log, 1)  # whoever started us waits for the end of our standard output
            failure = self._keep(driver, service, engine, watch)
            if self.front is not None and failure is None:
                self._drain(self.front)
        except Exception as error:
            traceback.print_exc()  # into the log, which would be removed if it were empty
            if (failed := driver.failure_of(error)) is not None:
                raise failed from error
            raise
        finally:
            if self.front is not None:
                self.front.close()
            if failure is None:
                self._forget()
            else:
                print(f"mere: the warm engine ends: {failure}", file=sys.stderr, flush=True)
                driver.kill()  # one that does not answer would not stop by itself
                if engine is not None:
                    self.place.leave_word(engine, failure)
            driver.stop()
        os.close(held)

    def _forget(self) -> None:
        if self._is_known():
            self.place.file.unlink(missing_ok=True)

    def _started(self) -> Driver:
        asked = self.order["settings"]
        usual = _FRESH_WORKERS if self.shared is None else {**_FRESH_WORKERS, **_FAIR}
        conf = {**usual, **asked["conf"], **server_conf(self.token, rests=self.shared is None)}
        settings = SparkSettings(**{**asked, "conf": conf})
        launch = prepare(settings, drivers=[Jar(**each) for each in self.order["drivers"]])
        beside = () if settings.ml else tuple(quiet_ml())
        work = Work.WARM if self.shared is None else Work.SERVER
        launch = replace(launch, work=work, beside=beside, archive=archive.find(launch))
        return Driver.on(Jvm(launch), settings)

    def _engine(self, driver: Driver, port: int) -> Engine:
        return Engine(
            pid=os.getpid(),
            address=f"127.0.0.1:{port}",
            token=self.token,
            fits=self.order["fits"],
            idle=self.order["idle"],
            since=self.order["since"],
            log=str(driver.log),
            jvm=driver.pid,
            ui=driver.context.uiWebUrl,
        )

    def _with_front(self, engine: Engine, watch: Watch, terms: front.Terms) -> Engine:
        assert front.opener is not None
        self.front = front.opener(front.Backend(engine.address, engine.token, watch.gauges), terms)
        return replace(engine, front=self.front.url, secret=terms.secret, monitor=self.front.monitor)

    def _grant(self, engine: Engine, watch: Watch) -> Engine:
        """The wish for a front, which `engine.front_of` has left."""
        wish = self.place.get(self.place.wish)
        if not wish:
            return engine
        try:
            terms = front.Terms(**wish, secret=secrets.token_urlsafe(32))  # type: ignore[arg-type]
            engine = self._with_front(engine, watch, terms) if self.front is None else engine
            self.place.write(engine)
        except Exception as error:  # noqa: BLE001 whoever waits for the front is told; others are at work here
            traceback.print_exc()
            self.place.put(self.place.usage, {"failure": str(error)})
        self.place.wish.unlink(missing_ok=True)
        return engine

    def _drain(self, of: front.Front) -> None:
        """What runs may end, for as long as was said."""
        grace = self.shared["grace"] if self.shared is not None else 0.0
        end = time.monotonic() + grace
        of.drain(lambda: self.hurry.is_set() or time.monotonic() > end)

    def _is_known(self) -> bool:
        """Whether the file still tells of this engine: of one that nobody finds, nobody has any use."""
        found = self.place.engine()
        return found is not None and found.token == self.token

    def _is_of_use(self, engine: Engine, used: float) -> bool:
        """While another process starts or ends an engine here, what it has not finished tells nothing."""
        if not self.place.folder.is_dir():
            return False
        is_idle = time.monotonic() - used > self.order["idle"]
        if self._is_known() and not is_idle:
            return True
        with self.place.unless_starting() as mine:
            return not mine or (self._is_known() and bool(self.place.withdraw(engine)))

    def _keep(self, driver: Driver, service: Any, engine: Engine, watch: Watch) -> str | None:
        """Until it is of no use, or fails: in what."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        used = noted = time.monotonic()
        while not self.over.wait(_GLANCE) and self._is_of_use(engine, used):
            if failure := self._failure(driver, engine, watch):
                return failure
            engine = self._grant(engine, watch)
            if self.front is not None:
                used = max(used, self.front.used)
                if time.monotonic() - noted > EVERY:
                    noted = time.monotonic()
                    self._note(self.front)
            for session in self.place.left():
                try:
                    _end_session(driver, service, session.removesuffix(PROBE))
                except (Py4JError, PySparkException):
                    traceback.print_exc()  # others are at work in this JVM: it goes on
                (self.place.clients / session).unlink(missing_ok=True)
                used = used if session.endswith(PROBE) else time.monotonic()
            if self.place.sessions():
                used = time.monotonic()
        return None

    def _note(self, of: front.Front) -> None:
        self.place.put(self.place.usage, {"sessions": [list(each) for each in of.sessions], "running": of.running})

    def _failure(self, driver: Driver, engine: Engine, watch: Watch) -> str | None:
        if not driver.alive:
            return "its JVM ended"
        others = self.front is not None and time.monotonic() - self.front.used < _RESTING
        if watch.failure is None and watch.is_worn and not others and self.shared is None:
            with self.place.unless_starting() as mine:
                return "its memory for compiled code was used up" if mine and not self.place.withdraw(engine) else None
        return watch.failure


def server_conf(token: str, *, rests: bool = True) -> dict[str, str]:
    """It reaches the JVM through the gateway. `rests`: who is still there is told by locks, so that a session may rest
    for as long as its client likes; Spark itself ends one that was not used for an hour."""
    return {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.connect.authenticate.token": token,
        **({"spark.connect.session.manager.defaultSessionTimeout": "-1"} if rests else {}),
    }


def serve(driver: Driver) -> Any:
    """Start the Connect server in the driver's JVM."""
    context: Any = driver.context
    service = getattr(context._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$").__getattr__("MODULE$")
    service.start(context._jsc.sc())
    return service


def _end_session(driver: Driver, service: Any, session_id: str) -> None:
    """Cancel what it still does, and close its catalogs: Spark would keep their connections for as long as it runs."""
    view: Any = driver.context._jvm
    key = view.org.apache.spark.sql.connect.service.SessionKey(USER, session_id)
    sessions = service.sessionManager()
    holder = sessions.getIsolatedSessionIfPresent(key)
    if not holder.isDefined():
        return
    catalogs = holder.get().session().sessionState().catalogManager()
    sessions.closeSession(key, False)
    names = catalogs.listCatalogs(view.scala.Option.empty())
    for name in (names.apply(index) for index in range(names.size())):
        if name != "spark_catalog":
            with suppress(Exception):  # whatever is no catalog of Iceberg's has nothing to close
                catalogs.catalog(name).icebergCatalog().close()


def _to_log(log: Path, descriptor: int) -> None:
    with private.appended(log) as file:
        os.dup2(file.fileno(), descriptor)


def main() -> None:
    keeper = Keeper(json.loads(sys.stdin.read()))
    if os.fork():
        os._exit(0)  # nobody has to wait for the keeper itself: it outlives whoever started it
    signal.signal(signal.SIGTERM, lambda *_: keeper.over.set())
    signal.signal(signal.SIGINT, lambda *_: keeper.hurry.set())
    try:
        keeper.run()
    except MereError as error:
        print(error, flush=True)
        sys.exit(1)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        raise


if __name__ == "__main__":
    main()

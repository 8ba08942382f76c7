"""A session on a Spark Connect server: a warm engine, or a server that somebody else runs."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mere.engine import client
from mere.engine.driver import silence
from mere.engine.interrupt import cancel_on_interrupt
from mere.engine.jvm.jars import Jar
from mere.engine.translate import explain, is_from_spark, log_at
from mere.errors import EngineError, SparkFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USER = "mere"
# By these pyspark knows, in all of the process, which kind of columns its functions have to make, and that
# `SparkSession.builder.getOrCreate()` means the session of a server.
_MODE = {"SPARK_CONNECT_MODE_ENABLED": "1", "SPARK_REMOTE": "sc://localhost"}
# By this variable pyspark itself finds it, too.
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
# Seconds in which a server that was never reached is tried again: it is down, or its address is wrong.
_PATIENCE = 1.0
_ICEBERG = "IcebergSparkSessionExtensions"


class Connection:
    """One session of a server; what `Driver` is for a JVM of our own."""

    def __init__(self, spark: SparkSession, release: Callable[[], None] | None = None) -> None:
        self.owner = os.getpid()
        self.spark = spark
        self._release = release
        self._over = threading.Event()
        self._restore_interrupt = cancel_on_interrupt(self.cancel, signal.getsignal(signal.SIGINT))
        _open.append(self)
        _activate(self)

    @classmethod
    def to_engine(
        cls, address: str, token: str, session_id: str, alive: Callable[[], bool], release: Callable[[], None]
    ) -> Connection:
        """To a server on this machine that mere has started; `release` tells it that the session is over."""
        client.load()
        return cls(_opened(_local(address, token, session_id), alive), release)

    @classmethod
    def to_remote(cls, url: str) -> Connection:
        """To a server of somebody else, if it can be used for a lake."""
        client.load()
        from pyspark.sql.connect.client import DefaultChannelBuilder

        log_at(None, of_server=True)
        reached, patience = threading.Event(), time.monotonic() + _PATIENCE
        builder = DefaultChannelBuilder(url)
        connection = cls(_opened(builder, lambda: reached.is_set() or time.monotonic() < patience))
        try:
            _try(connection.spark, url)
            reached.set()
        except BaseException:
            connection.close()
            raise
        return connection

    def ask(self, seconds: float) -> None:
        """Let it do a little; TimeoutError if it does not answer in time."""
        outcome: list[BaseException | None] = []

        def work() -> None:
            try:
                # No function of columns: pyspark asks once, and in this thread in vain, whether errors shall name the
                # line of Python that made a column.
                self.spark.range(1).collect()
                outcome.append(None)
            except Exception as exc:  # noqa: BLE001 - raised below
                outcome.append(exc)

        worker = threading.Thread(target=work, name="mere-ask", daemon=True)
        worker.start()
        worker.join(seconds)
        if not outcome:
            self.hang_up()
            raise TimeoutError
        if outcome[0] is not None:
            raise outcome[0]

    def watch(self, pulse: Path, seconds: float) -> None:
        """Hang up when there was no pulse for so long: an engine that is stopped would keep us waiting for ever."""
        threading.Thread(target=self._watch, args=(pulse, seconds), name="mere-watch", daemon=True).start()

    def _watch(self, pulse: Path, seconds: float) -> None:
        felt, since = _mtime(pulse), time.monotonic()
        while not self._over.wait(seconds / 20):
            if (now := _mtime(pulse)) != felt:
                felt, since = now, time.monotonic()
            elif time.monotonic() - since > seconds:
                self.hang_up()
                return

    def hang_up(self) -> None:
        """Whoever waits for an answer gets an error."""
        spark: Any = self.spark
        spark.client._channel.close()

    def lacks(self, drivers: Sequence[Jar]) -> list[Jar]:  # noqa: ARG002
        """What a server has on its class path is seen when it loads the catalog."""
        return []

    def configure(self, spark: SparkSession, conf: Mapping[str, str]) -> None:
        """All at once: each request costs a round trip."""
        _settings(spark)._set_all(dict(conf), silent=False)

    def configure_if_possible(self, spark: SparkSession, conf: Mapping[str, str]) -> None:
        """What only a start of Spark can set is left as it is."""
        _settings(spark)._set_all(dict(conf), silent=True)

    def forget_catalog(self, spark: SparkSession, name: str) -> None:
        """On a warm engine its connections are closed with the session; another server keeps them for as long as it
        likes."""

    def failure_of(self, exc: BaseException) -> SparkFailed | None:
        return explain(exc) if is_from_spark(exc) else None

    @property
    def is_elsewhere(self) -> bool:
        """A warm engine has this machine's files; of another server nobody knows."""
        return self._release is None

    def add_python(self, archive: Path) -> None:
        self.spark.addArtifact(str(archive), pyfile=True)

    def cancel(self) -> None:
        try:
            self.spark.interruptAll()
        except Exception:  # the server may be gone already
            logging.getLogger(__name__).debug("jobs were not cancelled", exc_info=True)

    def close(self) -> None:
        self._over.set()
        self._restore_interrupt()
        spark: Any = self.spark
        # Who keeps a warm engine ends the session when it sees the release: there is no answer to wait for.
        spark.release_session_on_close = self._release is None
        with suppress(Exception):
            spark.stop()
        # pyspark closes it again when the session is garbage, in whichever thread that is found: one of its own threads
        # would wait for a lock that is held by whoever waits for that thread.
        spark.client.close = _nothing
        if self._release:
            self._release()
        _open.remove(self)
        _activate(_open[-1] if _open else None)


def _nothing() -> None:
    pass


# Of this process.
_open: list[Connection] = []


def is_open() -> bool:
    """Whether this process has a session on a server."""
    return bool(_open)


def close_all() -> None:
    for connection in [each for each in _open if each.owner == os.getpid()]:
        connection.close()


def _activate(connection: Connection | None) -> None:
    """Code that asks for "the" session gets the one that was opened last."""
    from pyspark.sql.connect.session import SparkSession as Remote

    spark: Any = connection and connection.spark
    Remote._default_session = Remote._active_session.session = spark
    for name, value in _MODE.items():
        if spark is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _mtime(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _settings(spark: SparkSession) -> Any:
    return spark.conf


def _opened(builder: Any, alive: Callable[[], bool]) -> SparkSession:
    from pyspark.sql.connect.session import SparkSession as Remote

    silence()
    # pyspark warns beside raising.
    warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")
    spark: Any = Remote(builder, userId=USER)
    spark.client.set_retry_policies([_retrying(alive)])
    return spark  # type: ignore[no-any-return]


def _try(spark: SparkSession, url: str) -> None:
    try:
        extensions = str(spark.conf.get("spark.sql.extensions", ""))
    except Exception as exc:
        if is_from_spark(exc):
            raise _unreachable(url, exc) from exc
        raise
    if _ICEBERG not in extensions:
        raise EngineError(
            f"The Spark at {url} was started without Iceberg's extensions.",
            remedy=f"Start it with spark.sql.extensions=org.apache.iceberg.spark.extensions.{_ICEBERG} and with"
            " Iceberg's runtime on its class path: see the page on the engine in the docs.",
        )


def _local(address: str, token: str, session_id: str) -> Any:
    import grpc
    from pyspark.sql.connect.client import ChannelBuilder

    class Local(ChannelBuilder):
        """pyspark's own would ask for TLS. The credentials make sure that the other end is on this machine."""

        @property
        def host(self) -> str:
            return address

        def toChannel(self) -> Any:  # noqa: N802
            credentials = grpc.composite_channel_credentials(
                grpc.local_channel_credentials(), grpc.access_token_call_credentials(token)
            )
            return self._secure_channel(address, credentials)

    return Local(params={"session_id": session_id})


def _retrying(alive: Callable[[], bool]) -> Any:
    """pyspark would try for ten minutes to reach a server that is gone."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    class WhileAlive(DefaultPolicy):
        def can_retry(self, exception: BaseException) -> bool:
            return super().can_retry(exception) and alive()

    return WhileAlive(max_retries=6, initial_backoff=50, max_backoff=4000)


def _unreachable(url: str, exc: BaseException) -> EngineError:
    said = explain(exc).message
    return EngineError(
        f"The Spark at {url} cannot be used: {said}",
        remedy=f"Correct `remote` under `spark:` in mere.yaml. A server with a token: export {TOKEN_VARIABLE}=…",
    )

"""Spark's exceptions as one readable message each: what went wrong and where, without Java's stack trace."""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType

from mere.errors import SparkFailed, SparkLost
from mere.lake.refs.clock import SET_CLOCK
from mere.lake.storage.s3 import CHECK_KEYS, CHECK_NETWORK

MORE_MEMORY = "Give it more: `memory:` under `spark:` in mere.yaml, or SparkSettings(memory=…)."

# The lake's database explains a refusal itself; Iceberg hides the sentence behind "Unknown failure".
_GUARD = re.compile(r"SQL\w*Exception[^\n]*\bmere: ([^\n]+)")
# A REST catalog says why in a sentence, too; Iceberg's client puts a word before it.
_REFUSED = re.compile(
    r"iceberg\.exceptions\.(?:Forbidden|NotAuthorized|BadRequest)Exception: "
    r"(?:Forbidden|Not authorized|Malformed request): ([^\n]+)"
)
_LACKS_RIGHTS = re.compile(r" may not |The token is not valid|has no role|There is no role")
_OF_TOKEN = "Whose rights these are, `token` under `spark:` in mere.yaml says: it needs a role that may do this."
_NO_ANSWER = re.compile(r"RESTException: Error occurred while processing \w+ request")
_GC_DISABLED = re.compile(r"Cannot (?:expire snapshots|delete orphan files|purge table)[^\n]*GC is disabled")
# A snapshot, or the metadata that has it, would be older than the one before it by more than a minute.
_CLOCK = re.compile(
    r"Expected sorted (?:snapshot|previous metadata) log entries|Invalid (?:snapshot|update) timestamp \d+: before"
)
_NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded|File too large|SQLITE_FULL|disk is full")
_NO_CATALOG = re.compile(r"\[CATALOG_NOT_FOUND\] The catalog `([^`]+)` not found")
_NULL = re.compile(r"\[NOT_NULL_ASSERT_VIOLATION\][^\n]*\n\s*([^\n]+)")
_OUT_OF_MEMORY = re.compile(r"OutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY")
_S3_REFUSES = re.compile(r"S3Exception: ([^\n]*?) \(Service: S3, Status Code: 40[13]")
_NO_BUCKET = re.compile(r"NoSuchBucketException")
_S3_FAILS = re.compile(
    r"(?:SdkClientException|S3Exception): ([^\n]*?)(?: \(Service: S3[^\n]*| \(SDK Attempt[^\n]*|\n|$)"
)
_OTHER_PYTHON = re.compile(r"PYTHON_VERSION_MISMATCH\][^\n]*?different version: (\S+) than that in driver: ([\d.]+)")
_NO_PYTHON = re.compile(r'Cannot run program "([^"]*python[^"]*)"', re.IGNORECASE)
_LEFT_OUT = "'JavaPackage' object is not callable"
_NO_CLASS = re.compile(r"Cannot find catalog plugin class[^\n]*?: ([\w.$]+)|ClassNotFoundException: ([\w.$]+)")
_CONNECT = "pyspark.errors.exceptions.connect"
_RPC_DETAILS = re.compile(r'details = "(.*)"')
_SESSION_GONE = ("NO_ACTIVE_SESSION", "INVALID_HANDLE.SESSION_", "INVALID_HANDLE.OPERATION_ABANDONED")
# The server has met an error that it does not describe, such as a lack of memory or of room for code.
_SERVER_FAILS = "Application error processing RPC"
_STOPPED = re.compile(r"stopped SparkContext|SparkContext (?:was|has been) (?:shut down|stopped)")
_HUNG_UP = ("closed channel", "Channel closed")
_INTERNAL = "INTERNAL_ERROR"
_WIDTH = 400  # of a message that was not written for people
_REASON = re.compile(r"^\((?:\w+\.)+([\w$]+)\) ")

# Java's way to print an exception and what caused it: a class, perhaps a message, then indented frames.
_THROWABLE = re.compile(
    r"^(?:Caused by: |: )?((?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error|Failure))(?:: (.*))?$", re.M
)
_STAGE_FAILURE = re.compile(r"most recent failure: [^\n]*executor driver\): (?:[\w.$]+: )?([^\n]+)")
_SAYS_NOTHING = ("Unknown failure", "Failed to execute:", "Job aborted", "Writing job failed", "Writing job aborted")

_ERROR_CLASS = re.compile(r"^\s*\[([A-Z][A-Z0-9_.]*)\]\s*")
_SQL_STATE = re.compile(r"\s*SQLSTATE: \w{5}.*", re.DOTALL)
_PLAN = re.compile(r";?\n['+:\s]*[A-Z]\w*.*", re.DOTALL)
_ADVICE_AGAINST_CHECKS = re.compile(r'\s*If necessary set "spark\.sql\.ansi\.enabled".*?this error\.')
# Spark counts columns from 0 when it says `pos`, and from 1 when it says `position`.
_POSITION = re.compile(r"line (\d+),? pos(ition)? (\d+)")
_CALL_SITE = re.compile(r"was called from\n(\S[^\n]*):(\d+)")
_PYTHON_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def is_from_spark(exc: BaseException) -> bool:
    """Whether `explain` can say more about it than Python."""
    package = type(exc).__module__.partition(".")[0]
    if package in ("pyspark", "py4j"):
        return True
    if isinstance(exc, TypeError):
        return _LEFT_OUT in str(exc)
    if isinstance(exc, ValueError):
        return any(words in str(exc) for words in _HUNG_UP)
    return isinstance(exc, OSError) and _came_through_py4j(exc.__traceback__)


def may_be_lost(exc: BaseException) -> bool:
    """Whether it could mean that the JVM is gone: py4j then even says that a class does not exist."""
    from py4j.protocol import Py4JError, Py4JJavaError

    return isinstance(exc, OSError | Py4JError) and not isinstance(exc, Py4JJavaError)


def was_interrupted(exc: BaseException | None) -> bool:
    """Whether it is Ctrl-C, or came of it: on its way out pyspark talks to the JVM once more, and that may fail."""
    while exc is not None and not isinstance(exc, KeyboardInterrupt):
        exc = exc.__context__
    return exc is not None


def explain(exc: BaseException) -> SparkFailed:
    """One readable message for whatever `is_from_spark`."""
    text, trace = _texts(exc)
    everything = f"{text}\n{trace}"
    if failure := _of_lake(everything):
        return failure
    if missing := _NO_CATALOG.search(everything):
        return SparkFailed(
            f"This session has no catalog `{missing[1]}`.",
            remedy=f"Make the ref a catalog of the session first: session.attach({missing[1]!r})",
        )
    if failure := _of_s3(everything):
        return failure
    if _is_lost(exc, text):
        return _lost(exc)
    if _STOPPED.search(everything):
        return SparkLost("Spark was stopped, by an error of its own or from outside.", remedy=_again(exc))
    if _OUT_OF_MEMORY.search(everything):
        return SparkFailed(f"Spark ran out of memory: {_first_line(text)}", remedy=MORE_MEMORY)
    if null := _NULL.search(everything):
        return SparkFailed(
            f"A row has no {null[1].strip()}, which is never null in the table.",
            remedy=f"Filter out such rows (WHERE {null[1].strip()} IS NOT NULL), or make the column nullable.",
        )
    if _LEFT_OUT in text:
        return SparkFailed(
            "A Java class was called that this session was started without: Spark's machine learning, most likely.",
            remedy="Set `ml: true` under `spark:` in mere.yaml, or import pyspark.ml before the session is opened.",
        )
    if missing := _NO_CLASS.search(everything):
        return SparkFailed(
            f"This Spark has no {missing[1] or missing[2]} on its class path.",
            remedy="Whoever started it has to put the jar there: see the page on the engine in the docs.",
        )
    if failure := _of_python(everything):
        return failure
    if failed := _python_failure(text):
        return SparkFailed(failed)
    if _SERVER_FAILS in text:
        return SparkFailed("Spark's server failed without giving a reason.", remedy=_again(exc))
    return _other(exc, text, trace)


def _of_python(everything: str) -> SparkFailed | None:
    if other := _OTHER_PYTHON.search(everything):
        has, needs = other[1].strip("()"), other[2].rstrip(".")
        return SparkFailed(
            f"Spark's workers run Python {has}, and this is Python {needs}: functions go from one to the other only"
            " between equal versions.",
            remedy=f"Name a Python {needs} that every worker has: export PYSPARK_PYTHON=python{needs}",
        )
    if missing := _NO_PYTHON.search(everything):
        return SparkFailed(
            f"A worker of Spark has no {missing[1]}, which runs Python functions.",
            remedy="Install it on all of them, or name one that they have: export PYSPARK_PYTHON=/usr/bin/python3",
        )
    return None


def _of_lake(everything: str) -> SparkFailed | None:
    if guard := _GUARD.search(everything):
        return SparkFailed(_sentence(guard[1]))
    if refused := _REFUSED.search(everything):
        said = refused[1].strip().rstrip(".")  # it may begin with a name
        return SparkFailed(f"{said}.", remedy=_OF_TOKEN if _LACKS_RIGHTS.search(said) else None)
    if _NO_ANSWER.search(everything):
        return SparkFailed(
            "The REST catalog of the lake does not answer.",
            remedy="Check `uri` under `spark:` in mere.yaml, and that the server runs: mere serve",
        )
    if _GC_DISABLED.search(everything):
        return SparkFailed(
            "A file of this table may belong to several refs, so Spark must not delete any. Nothing was deleted.",
            remedy="`mere gc` deletes the files that no ref needs.",
        )
    if _CLOCK.search(everything):
        return SparkFailed(
            "The clock of the machine that runs Spark is off: it is behind the time at which this table was last"
            " written, and Iceberg keeps the snapshots of a table in the order of time. Nothing was written.",
            remedy=f"{SET_CLOCK}\nTo see by how much: mere doctor --no-spark",
        )
    if full := _NO_ROOM.search(everything):
        return SparkFailed(
            f"There is no room on a disk to which Spark writes ({full[0]}): that of the lake, or that of temporary"
            " files. Nothing was committed.",
            remedy="To see how much is free, and where: mere doctor --no-spark. Free some space and try again.",
        )
    return None


def _other(exc: BaseException, text: str, trace: str) -> SparkFailed:
    said, error_class = _message(text, trace)
    if error_class is None or error_class == _INTERNAL:
        said, remedy = said if len(said) <= _WIDTH else f"{said[:_WIDTH]}…", _see_log(exc)
    else:
        remedy = None
    line, column = _position(text)
    return SparkFailed(said + ("" if line else _call_site(text)), remedy=remedy, line=line, column=column)


def log_at(path: Path | None, *, of_server: bool) -> None:
    """Where what runs Spark for this process writes: its own JVM, or a server; None if that is elsewhere."""
    _logs[of_server] = path


_logs: dict[bool, Path | None] = {}


def _see_log(exc: BaseException) -> str:
    log = _logs.get(_is_of_server(exc))
    return f"All that Spark said: {log}" if log else "The log of Spark's server says more."


def _again(exc: BaseException) -> str:
    return f"Try again: Spark will be restarted. {_see_log(exc)}"


def _is_of_server(exc: BaseException) -> bool:
    return _is_of_connect(exc) or isinstance(exc, ValueError)  # see is_from_spark


def _lost(exc: BaseException) -> SparkLost:
    if _is_of_server(exc):
        return SparkLost("The server that ran Spark no longer answers: it was stopped or killed.", remedy=_again(exc))
    return SparkLost(
        "Spark's JVM no longer answers: the session was stopped, or the JVM was killed.", remedy=_again(exc)
    )


def _of_s3(everything: str) -> SparkFailed | None:
    if refused := _S3_REFUSES.search(everything):
        return SparkFailed(f"S3 refuses it: {refused[1]}", remedy=CHECK_KEYS)
    if _NO_BUCKET.search(everything):
        return SparkFailed(
            "S3 has no such bucket.", remedy="Create it, or correct `lake` or `s3.endpoint` in mere.yaml."
        )
    if failed := _S3_FAILS.search(everything):
        return SparkFailed(f"S3 cannot be reached, or fails: {failed[1]}", remedy=CHECK_NETWORK)
    return None


def keep_text(exc: BaseException) -> None:
    """Let the exception still be printed when the JVM, which it would ask for its text, is gone."""
    if not isinstance(exc, OSError | TypeError) and not _is_of_connect(exc):
        text, _ = _texts(exc)
        name, module = type(exc).__name__, type(exc).__module__
        exc.__class__ = type(name, (type(exc),), {"__str__": lambda _: text, "__module__": module})


def _texts(exc: BaseException) -> tuple[str, str]:
    """What the exception says, and Java's stack trace as text. Asks the JVM nothing: it may be gone."""
    described = getattr(exc, "_desc", None)
    if described:
        return str(described), str(getattr(exc, "_stackTrace", ""))
    if _is_of_connect(exc):
        return _texts_of_connect(exc)
    from py4j.protocol import Py4JError

    try:
        text = str(exc)
    except (OSError, Py4JError):
        # py4j asks the JVM for the text of its exceptions.
        text = type(exc).__name__
    head, _, frames = text.partition("\n\tat ")
    return re.sub(r"^An error occurred while calling \S+\n", "", head), frames


def _is_of_connect(exc: BaseException) -> bool:
    return any(each.__module__ == _CONNECT for each in type(exc).__mro__)


def _texts_of_connect(exc: BaseException) -> tuple[str, str]:
    """A server sends the causes along, and gRPC a text of its own if it has not reached one."""
    text = str(exc)
    if details := _RPC_DETAILS.search(text):
        text = details[1]
    return _REASON.sub(r"\1: ", text), str(getattr(exc, "_stacktrace", None) or "")


def _message(text: str, trace: str) -> tuple[str, str | None]:
    """What Spark says, and the name that it has for such an error, if it has one."""
    if stage := _STAGE_FAILURE.search(text):
        return _cleaned(stage[1]), _class_of(stage[1])
    chain = [*_THROWABLE.findall(text), *_THROWABLE.findall(trace)] if text.startswith(": ") else []
    for name, said in chain:
        if said and not said.startswith(_SAYS_NOTHING):
            cleaned, error_class = _cleaned(said), _class_of(said)
            # Spark's own messages are sentences; others need their class to be understood.
            return (cleaned, error_class) if error_class else (f"{name.rpartition('.')[2]}: {cleaned}", None)
    return _cleaned(text), _class_of(text)


def _class_of(said: str) -> str | None:
    found = _ERROR_CLASS.match(said)
    return found[1] if found else None


def _cleaned(text: str) -> str:
    text = _SQL_STATE.sub("", _ERROR_CLASS.sub("", text))
    text = _ADVICE_AGAINST_CHECKS.sub("", _PLAN.sub("", text))
    return _first_line(text)


def _position(text: str) -> tuple[int, int] | tuple[None, None]:
    found = _POSITION.search(text)
    return (int(found[1]), int(found[3]) + (0 if found[2] else 1)) if found else (None, None)


def _call_site(text: str) -> str:
    site = _CALL_SITE.search(text)
    return f" ({Path(site[1]).name}, line {site[2]})" if site else ""


def _python_failure(text: str) -> str | None:
    """A Python function that Spark called has its own stack trace; its last line says what, its last frame where."""
    if "Traceback (most recent call last)" not in text:
        return None
    said = [line for line in text.splitlines() if line and not line.startswith(" ")]
    frames = _PYTHON_FRAME.findall(text)
    where = f" ({Path(frames[-1][0]).name}, line {frames[-1][1]})" if frames else ""
    return f"A Python function failed: {said[-1]}{where}"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip(": \t")), "Spark gave no reason.")


def _sentence(text: str) -> str:
    text = text.strip()
    if text.endswith(")") and text.count("(") < text.count(")"):
        text = text[:-1]
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _is_lost(exc: BaseException, text: str) -> bool:
    if any(words in text for words in _HUNG_UP):
        return True
    if _is_of_connect(exc):
        status = getattr(getattr(exc, "_grpc_status_code", None), "name", "")
        return status == "UNAVAILABLE" or str(getattr(exc, "_errorClass", "")).startswith(_SESSION_GONE)
    from py4j.protocol import Py4JNetworkError

    return isinstance(exc, OSError | Py4JNetworkError) or "Answer from Java side is empty" in text


def _came_through_py4j(traceback: TracebackType | None) -> bool:
    while traceback is not None:
        if "py4j" in Path(traceback.tb_frame.f_code.co_filename).parts:
            return True
        traceback = traceback.tb_next
    return False

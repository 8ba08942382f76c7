"""What went wrong in a model, with its file and line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mere.engine.translate import explain, is_from_spark
from mere.errors import MereError, RunFailed, SparkFailed, SparkLost
from mere.project.model import Model, Sql


@contextmanager
def explained(model: Model) -> Iterator[None]:
    """Whatever goes wrong in here is told with the model's file and, if it can be known, the line."""
    try:
        yield
    except MereError:
        raise
    except Exception as exc:
        if is_from_spark(exc):
            failure = explain(exc)
            if isinstance(failure, SparkLost):
                raise failure from exc  # no line of the model is the reason
            raise RunFailed(f"{_place(model, failure)}: {failure.problem}", remedy=failure.remedy) from exc
        if model.file.endswith(".py"):
            raise RunFailed(f"{_python_place(model, exc)}: {type(exc).__name__}: {exc}") from exc
        raise


def _place(model: Model, failure: SparkFailed) -> str:
    if failure.line is None or not isinstance(model.body, Sql):
        return f"{model.file}:{model.body.line}"
    return f"{model.file}:{model.body.line + failure.line - 1}:{failure.column}"


def _python_place(model: Model, exc: BaseException) -> str:
    """The deepest line of the stack that is in the model's own file."""
    line, traceback = model.body.line, exc.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename.replace("\\", "/").endswith(model.file):
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return f"{model.file}:{line}"

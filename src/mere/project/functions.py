"""The function of a PySpark model, imported just before it runs."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import types
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from mere.errors import ConfigError
from mere.project.cache import digest_of
from mere.project.model import Model, Python
from mere.sources.source import Function, Source

_lock = threading.Lock()
_loaded: dict[tuple[Path, str, str, str], Callable[..., Any]] = {}


def function(folder: Path, model: Model) -> Callable[..., Any]:
    """The function as it stands in the file. It is imported again only when its code or a module of it changed."""
    if isinstance(model.body, Source) and isinstance(model.body.feed, Function):
        name = model.body.feed.function
    elif isinstance(model.body, Python):
        name = model.body.function
    else:
        raise TypeError(f"{model} is not a Python model")
    key = folder.resolve(), model.file, name, model.code
    with _lock:
        if key not in _loaded:
            _loaded[key] = _import(key[0], model, name)
        return _loaded[key]


def _import(folder: Path, model: Model, name: str) -> Callable[..., Any]:
    _forget_project_modules(folder)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))  # it stays: a function may import when it is called
    try:
        module = _module(folder, Path(model.file))
    except Exception as error:
        message, line = f"it cannot be imported: {type(error).__name__}: {error}", _line(folder / model.file, error)
        raise ConfigError(message, file=model.file, line=line) from error
    _send_by_value(folder)
    found: Callable[..., Any] = getattr(module, name)
    return found


def _module(folder: Path, file: Path) -> types.ModuleType:
    """Under a name that no other project's `models` can have, with its folder as the package of relative imports."""
    top = f"mere_project_{digest_of(str(folder).encode())[:12]}"
    package = top
    _package(package, folder)
    for part in file.parts[:-1]:
        package = f"{package}.{part}"
        _package(package, folder.joinpath(*package.split(".")[1:]))
    name = f"{package}.{file.stem}"
    spec = importlib.util.spec_from_file_location(name, folder / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _package(name: str, path: Path) -> None:
    if name not in sys.modules:
        package = types.ModuleType(name)
        package.__path__ = [str(path)]
        sys.modules[name] = package


def _forget_project_modules(folder: Path) -> None:
    """What was imported from this project before, and what another project left under the same name; with its compiled
    form, which Python takes for good if the file has the size that it had, and was changed within the same second."""
    others = {path for path, *_ in _loaded} - {folder}
    sys.path[:] = [path for path in sys.path if Path(path) not in others]
    projects = _starts([folder, *others])
    for name, module in list(sys.modules.items()):
        if _is_of(module, projects):
            del sys.modules[name]
            if file := getattr(module, "__file__", None):
                with suppress(OSError, NotImplementedError):
                    Path(importlib.util.cache_from_source(file)).unlink(missing_ok=True)


def _starts(folders: Iterable[Path]) -> tuple[str, ...]:
    """What the path of each file in them starts with: texts are compared a hundred times as fast as paths, and a
    process that works on many projects has thousands of modules."""
    return tuple(f"{folder}{os.sep}" for folder in folders)


def _is_of(module: types.ModuleType, projects: tuple[str, ...]) -> bool:
    """Whether a module is a file or folder of a project. A virtual environment may lie in there, but is not of it."""
    file = getattr(module, "__file__", None)
    places = [f"{place}{os.sep}" for place in ([file] if file else list(getattr(module, "__path__", [])))]
    environment = f"{sys.prefix}{os.sep}"
    return any(place.startswith(projects) and not place.startswith(environment) for place in places)


def _send_by_value(folder: Path) -> None:
    """Workers do not have the project's folder: functions go to them as they are, not as names to import."""
    from pyspark import cloudpickle

    project = _starts([folder])
    for module in list(sys.modules.values()):
        if _is_of(module, project):
            cloudpickle.register_pickle_by_value(module)


def _line(path: Path, error: BaseException) -> int | None:
    """The last line of the model's file that the error went through."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line

"""Reads a project's files into a graph of models, without Spark and without running the user's Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath

from mere import config
from mere.audits.audit import Custom, load_customs
from mere.entries import nearest
from mere.errors import ConfigError, UsageError
from mere.project.cache import MODELS as MODELS_CACHE
from mere.project.cache import Cache, Cached, digest_of
from mere.project.files.defaults import Defaults
from mere.project.files.templates import MacroFile, Templates
from mere.project.graph import Graph
from mere.project.model import Model, Sql
from mere.project.problems import Problems
from mere.syntax import not_utf8

FOLDERS = SOURCES, MODELS, SEEDS, MACROS, AUDITS, TESTS = "sources", "models", "seeds", "macros", "audits", "tests"
Variables = Mapping[str, str]
NO_VARIABLES: Variables = {}


def load(folder: Path, variables: Variables = NO_VARIABLES) -> Graph:
    """The graph, or a ProjectError with everything that is wrong. `variables` go before the `vars:` of mere.yaml."""
    return Loader(folder, variables).load()


class Loader:
    def __init__(self, folder: Path, variables: Variables = NO_VARIABLES) -> None:
        self.files = Files(folder)
        self.problems = Problems()
        self.variables: Mapping[str, object] = {}
        with self.problems.gather():
            self.variables = read_variables(folder, variables)
        self.defaults = Defaults()
        with self.problems.gather():
            file = folder / config.FILE_NAME
            self.defaults = Defaults.read(config.defaults(file) if file.is_file() else None, self.problems)
        self._cache: Cache[Cached] = Cache(folder, MODELS_CACHE)

    def load(self) -> Graph:
        self._check_shared()
        models: list[Model] = []
        for path in self.files.under(MODELS):
            if path.suffix in (".sql", ".py"):
                with self.problems.gather():
                    models += self._models(path, self._read_sql if path.suffix == ".sql" else self._read_python)
        for path in self.files.under(SOURCES):
            with self.problems.gather():
                models += self._sources(path)
        for path in self.files.under(SEEDS):
            with self.problems.gather():
                models += self._seed(path)
        self._cache.save()
        self._check_defaults(models)
        with self.problems.gather():
            graph = Graph.of(models)
        self.problems.raise_any()
        return graph

    def _check_defaults(self, models: Sequence[Model]) -> None:
        if not self.defaults:
            return
        # Also by their paths: a file that cannot be read may be the only one in its schema.
        paths = [path for top in (MODELS, SOURCES, SEEDS) for path in self.files.under(top)]
        schemas = {model.name.namespace for model in models} | {path.parts[1] for path in paths if len(path.parts) > 2}
        folders = {parent.as_posix() for path in paths for parent in path.parents} - {"."}
        self.defaults.check_places(schemas, folders, self.problems)

    def again(self, model: Model) -> Model:
        """A model, read with the variables of this loader. What other models are stays in the cache."""
        if not isinstance(model.body, Sql):
            return model
        read = self._read_sql(PurePosixPath(model.file)).models[0]
        self.problems.raise_any()
        return read

    @cached_property
    def templates(self) -> Templates:
        texts = [MacroFile(path.as_posix(), self.files.text(path)) for path in self._sql_files(MACROS)]
        return Templates(tuple(texts), self.variables, self.problems)

    @cached_property
    def customs(self) -> Mapping[str, Custom]:
        return load_customs(self.files.folder)

    @cached_property
    def _shared_key(self) -> str:
        """Of what every model may use."""
        files = [*self._sql_files(MACROS), *self._sql_files(AUDITS)]
        digests = [(path.as_posix(), self.files.digest(path.as_posix())) for path in files]
        return digest_of(repr((digests, sorted(self.variables.items()), self.defaults.digest)).encode())

    def _sql_files(self, top: str) -> Iterator[PurePosixPath]:
        return (path for path in self.files.under(top) if path.suffix == ".sql" and len(path.parts) == 2)

    def _check_shared(self) -> None:
        """Macros and audits that nobody uses yet have to be right too."""
        if self._cache.find(MACROS, self._shared_key, self.files.digest) is None:
            before = len(self.problems.found)
            with self.problems.gather():
                self.templates.macros()
            with self.problems.gather():
                _ = self.customs
            if len(self.problems.found) == before:
                self._cache.keep(MACROS, Cached(self._shared_key))

    def _models(self, path: PurePosixPath, read: Callable[[PurePosixPath], Cached]) -> tuple[Model, ...]:
        cached = self._cache.find(path.as_posix(), self._key(path), self.files.digest)
        if cached is None:
            cached = read(path)
            # What a variable of the environment gives today is not what it gives tomorrow. In a source it is not
            # looked up before something is fetched.
            if path.parts[0] == SOURCES or "${" not in self.files.text(path):
                self._cache.keep(path.as_posix(), cached)
        return cached.models

    def _key(self, *paths: PurePosixPath) -> str:
        digests = [self.files.digest(path.as_posix()) for path in paths]
        return digest_of(repr((self._shared_key, digests)).encode())

    def _read_sql(self, path: PurePosixPath) -> Cached:
        from mere.project.files.sql import read_sql

        model = read_sql(Path(path), self.files.text(path), self.customs, self.templates, self.defaults)
        return Cached(self._key(path), (model,))

    def _read_python(self, path: PurePosixPath) -> Cached:
        from mere.project.files.python import read_python

        looked_at: dict[str, str | None] = {}

        def source(module: PurePosixPath) -> str | None:
            looked_at[module.as_posix()] = found = self.files.digest(module.as_posix())
            return None if found is None else self.files.text(module)

        models = read_python(Path(path), self.files.text(path), self.customs, source, self.defaults)
        return Cached(self._key(path), models, looked_at)

    def _sources(self, path: PurePosixPath) -> tuple[Model, ...]:
        if path.suffix == ".yml":
            raise ConfigError("a source's file ends in .yaml", remedy="Rename it.", file=path.as_posix())
        if path.suffix == ".py":
            return self._models(path, self._read_python)
        return self._models(path, self._read_source) if path.suffix == ".yaml" else ()

    def _read_source(self, path: PurePosixPath) -> Cached:
        from mere.project.files.source import read_source

        return Cached(self._key(path), (read_source(Path(path), self.files.text(path), self.customs, self.defaults),))

    def _seed(self, path: PurePosixPath) -> tuple[Model, ...]:
        if path.suffix in (".yaml", ".yml"):
            self._check_sidecar(path)
        if path.suffix != ".csv":
            return ()
        sidecar = path.with_suffix(".yaml")
        has_sidecar = self.files.digest(sidecar.as_posix()) is not None
        key = self._key(path, sidecar)
        cached = self._cache.find(path.as_posix(), key, self.files.digest)
        if cached is None:
            from mere.project.files.seed import read_seed

            settings = (Path(sidecar), self.files.text(sidecar)) if has_sidecar else None
            model = read_seed(Path(path), self.files.content(path), settings, self.customs, self.defaults)
            cached = Cached(key, (model,))
            if settings is None or "${" not in settings[1]:
                self._cache.keep(path.as_posix(), cached)
        return cached.models

    def _check_sidecar(self, path: PurePosixPath) -> None:
        if path.suffix == ".yml":
            raise ConfigError("a seed's settings end in .yaml", remedy="Rename it.", file=path.as_posix())
        if self.files.digest(path.with_suffix(".csv").as_posix()) is None:
            raise ConfigError(
                "these are the settings of a seed that is not there",
                remedy=f"Add {path.with_suffix('.csv').name} beside it.",
                file=path.as_posix(),
            )


class Files:
    """The project's files by their paths relative to its folder. Each is read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._digests: dict[str, str | None] = {}
        self._contents: dict[str, bytes] = {}

    def under(self, top: str) -> list[PurePosixPath]:
        found: list[PurePosixPath] = []
        for place, folders, names in os.walk(self.folder / top):
            folders[:] = [each for each in folders if not each.startswith((".", "__pycache__"))]
            base = PurePosixPath(Path(place).relative_to(self.folder).as_posix())
            found += [base / name for name in names if not name.startswith(".")]
        return sorted(found)

    def digest(self, path: str) -> str | None:
        """None if there is no such file."""
        if path not in self._digests:
            try:
                self._contents[path] = content = (self.folder / path).read_bytes()
                self._digests[path] = digest_of(content)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                self._digests[path] = None
            except OSError as error:
                raise ConfigError(f"cannot be read: {error.strerror}", file=path) from error
        return self._digests[path]

    def content(self, path: PurePosixPath) -> bytes:
        if self.digest(path.as_posix()) is None:
            raise ConfigError("no longer exists", file=path.as_posix())
        return self._contents[path.as_posix()]

    def text(self, path: PurePosixPath) -> str:
        try:
            return self.content(path).decode("utf-8")
        except UnicodeDecodeError as error:
            raise not_utf8(error, path.as_posix()) from error


def read_variables(folder: Path, given: Mapping[str, str]) -> Mapping[str, object]:
    path = folder / config.FILE_NAME
    declared = dict(config.variables(path)) if path.is_file() else {}
    for name, text in given.items():
        if name not in declared:
            known = nearest(name, declared, "variables") if declared else f"{config.FILE_NAME} has no `vars:`."
            raise UsageError(f"There is no variable {name}.", remedy=known)
        import yaml

        # As in mere.yaml: `7` is a number, `false` is not the text "false".
        try:
            declared[name] = yaml.safe_load(text)
        except yaml.YAMLError:
            declared[name] = text
    return declared

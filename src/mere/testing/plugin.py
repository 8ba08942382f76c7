"""The pytest plugin: a session, a throw-away branch, and the functions of PySpark models.

It is loaded by every pytest of an environment with mere in it, so that it imports nothing before a fixture is used.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mere.engine.session import Session
    from mere.lake.lake import Lake
    from mere.pipeline.run.request import Project


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Leave mere as it is. Of a package that brings a plugin, pytest compiles each module that is imported anew, to
    explain its assertions: of mere hundreds, which takes longer than most tests."""
    marked = getattr(getattr(pluginmanager, "rewrite_hook", None), "_must_rewrite", None)
    if isinstance(marked, set):
        marked.discard("mere")


@pytest.fixture(scope="session")
def mere_project(pytestconfig: pytest.Config) -> Iterator[Project]:
    """The project in pytest's root folder, or in one above it, with its lake."""
    from mere import config
    from mere.lake.lake import Lake
    from mere.pipeline.run.request import Project
    from mere.project.load import load

    file = config.find_project(pytestconfig.rootpath)
    if file is None:
        pytest.fail(f"There is no mere.yaml in {pytestconfig.rootpath} or in a folder above.", pytrace=False)
    found = config.load(file)
    with Lake.open(found.lake, catalog=found.catalog, s3=found.s3) as lake:
        yield Project(lake, load(file.parent).placed(found.sources), file.parent, found.spark)


@pytest.fixture(scope="session")
def mere_lake(mere_project: Project) -> Lake:
    """The lake of the project."""
    return mere_project.lake


@pytest.fixture(scope="session")
def mere_session(mere_project: Project) -> Iterator[Session]:
    """One Spark session for all tests, on main."""
    from mere.engine.session import session

    with session(mere_project.lake, settings=mere_project.spark) as opened:
        yield opened


@pytest.fixture
def mere_branch(mere_session: Session, mere_lake: Lake) -> Iterator[str]:
    """A branch of main, on which the session is during the test, and which is deleted after it."""
    from mere.names import MAIN

    name = f"test_{secrets.token_hex(6)}"
    mere_lake.branch(name)
    try:
        catalog = mere_session.use(name)
        try:
            yield name
        finally:
            mere_session.use(MAIN)
            mere_session.detach(catalog)
    finally:
        mere_lake.delete(name)


@pytest.fixture(scope="session")
def mere_model(mere_project: Project) -> Callable[[str], Callable[..., Any]]:
    """`mere_model("gold.stats")` is the function of a PySpark model, to be called with DataFrames."""
    from mere.names import TableName, near
    from mere.project.functions import function
    from mere.project.model import Python

    def found(name: str) -> Callable[..., Any]:
        models = {str(each): each for each in mere_project.graph.models.values() if isinstance(each.body, Python)}
        if name not in models:
            pytest.fail(f"There is no PySpark model {name}.{near(name, models)}", pytrace=False)
        return function(mere_project.folder, mere_project.graph.models[TableName.parse(name)])

    return found

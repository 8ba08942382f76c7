"""`mere check`: finds what is wrong, or unwise, before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from mere.errors import ProjectError
from mere.names import TableName
from mere.project.cases import read_cases
from mere.project.check.examine import Examiner
from mere.project.check.findings import Finding
from mere.project.check.trino import not_in_trino
from mere.project.graph import Graph
from mere.project.load import Files, Loader
from mere.project.model import Model, Sql
from mere.project.rules import Rule

if TYPE_CHECKING:
    from mere.lake.query.tables import TableSet

__all__ = ["Checked", "Finding", "check", "errors"]


@dataclass(frozen=True)
class Checked:
    models: int
    findings: tuple[Finding, ...]  # in the order of files and lines


def check(
    folder: Path,
    patterns: Iterable[str] = (),
    variables: Mapping[str, str] | None = None,
    tables: TableSet | None = None,
    *,
    for_trino: bool = False,
) -> Checked:
    """`tables`: a ref of the lake, whose tables and their columns are then known. `for_trino`: it reads the views."""
    loader = Loader(folder, variables or {})
    try:
        graph = loader.load()
    except ProjectError as error:
        return Checked(0, tuple(_problems(error)))
    chosen = graph.select(patterns)
    # The columns of a model are those of its inputs, so that all are looked at, whichever are asked about.
    examiner = Examiner(loader.files, graph.models, tables)
    found = [
        finding
        for model in graph.models.values()
        for finding in (
            *examiner.examine(model),
            *examiner.unknown_tables(model),
            *(not_in_trino(model, tables) if for_trino and tables is not None else ()),
        )
        if model.name in chosen and finding.rule not in model.off
    ]
    examiner.save()
    try:
        cases = read_cases(loader.files, graph)
    except ProjectError as error:
        found += _problems(error)
    else:
        found += [each for case in cases if case.model.name in chosen for each in examiner.examine_case(case)]
    if len(chosen) == len(graph.models):
        found += _unused_macros(loader, graph.models.values())
    return Checked(len(chosen), tuple(sorted(found, key=_order)))


def errors(folder: Path, graph: Graph, chosen: Collection[TableName], tables: TableSet) -> tuple[Finding, ...]:
    """What is certain to be wrong in these models and in those upstream of them, which a run would meet."""
    looked_at = graph.upstream(chosen)
    examiner = Examiner(Files(folder), graph.models, tables)
    found = [
        finding
        for name, model in graph.models.items()
        if name in looked_at
        for finding in examiner.examine(model)
        if finding.is_error and finding.rule not in model.off
    ]
    examiner.save()
    return tuple(sorted(found, key=_order))


def _problems(error: ProjectError) -> Iterator[Finding]:
    for each in error.problems:
        yield Finding(Rule.PARSE, each.problem, each.file, each.line, each.column, each.remedy)


def _order(finding: Finding) -> tuple[str, int, int, str]:
    return finding.file or "", finding.line or 0, finding.column or 0, finding.rule


def _unused_macros(loader: Loader, models: Iterable[Model]) -> Iterator[Finding]:
    texts = [loader.files.text(PurePosixPath(model.file)) for model in models if isinstance(model.body, Sql)]
    for name, (file, line) in loader.templates.unused(texts).items():
        yield Finding(Rule.UNUSED_MACRO, f"no model uses the macro `{name}`", file, line, None, "Remove it.")

"""Writes a test from real rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mere.errors import MereError, TableNotFound, UsageError
from mere.names import TableName, near
from mere.pipeline.run.request import Project
from mere.project.cases import Case, read_case
from mere.project.kinds import VALID_FROM, VALID_TO
from mere.project.load import TESTS, Files
from mere.project.model import Model
from mere.testing.run import table_of
from mere.testing.sampling import columns_read, joins_of, sampled, samples
from mere.windows import stamp

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Created:
    name: str
    file: str
    rows: dict[str, int]  # of each input, and of the model

    def to_dict(self) -> dict[str, Any]:
        return {"file": self.file, "name": self.name, "rows": self.rows}

    @property
    def told(self) -> str:
        return ", ".join(f"{count} of {table}" for table, count in self.rows.items())


def create(project: Project, model_name: str, source: str, rows: int) -> Created:
    """The inputs' rows are read by DuckDB; what the model makes of them is computed by Spark."""
    model = _model(project, model_name)
    tables = project.lake.at(source)
    if missing := next((each.table for each in model.inputs if each.table not in tables), None):
        raise TableNotFound(f"{missing} is not on {source}, so there are no rows of it.", remedy="mere run")
    columns = {each.table: tables.metadata(each.table).columns for each in model.inputs}
    plan = samples(model, joins_of(model, project.graph, columns))
    # By the commit: what is sampled from several tables has to be from one state of the lake.
    found = sampled(project.lake, tables.commit.id, plan, columns_read(model, columns), rows)
    file = Path(TESTS) / f"{model.name.namespace}_{model.name.name}.yaml"
    name = _new_name(project.folder / file, f"{model.name.name}_from_{re.sub(r'[^a-z0-9]+', '_', source.lower())}")
    text = _text(name, model, found)
    case = read_case(name, f"{text}  expect: []\n", Files(project.folder), project.graph, file)
    made = table_of(project, case, tables)
    if isinstance(made, MereError):
        raise made
    made = made.select(_told_columns(case, made.column_names))
    text += f"  expect:{_listed(made, 4)}"
    _append(project.folder / file, f"# Real rows of {source}, commit {tables.commit.short_id}.\n{text}")
    counts = {str(table): each.num_rows for table, each in found.items()}
    return Created(name, file.as_posix(), counts | {str(model): made.num_rows})


def _model(project: Project, text: str) -> Model:
    name = TableName.parse(text)
    if name not in project.graph.models:
        raise UsageError(f"There is no model {name}.{near(text, map(str, project.graph.models))}")
    model = project.graph.models[name]
    if not model.inputs:
        raise UsageError(f"{name} reads nothing, so there are no rows to give.")
    return model


def _told_columns(case: Case, columns: list[str]) -> list[str]:
    """Without those that say when it was built."""
    if not case.model.kind.rules.adds or case.model.updated_at or case.model.dump:
        return columns
    return [name for name in columns if name not in (VALID_FROM, VALID_TO)]


def _text(name: str, model: Model, given: Mapping[TableName, pa.Table]) -> str:
    now = f"  now: {stamp(model.now.floor(datetime.now(UTC)))}\n" if model.now else ""
    tables = "".join(f"    {table}:{_listed(rows, 6)}" for table, rows in given.items())
    return f"{name}:\n  model: {model}\n{now}  given:\n{tables}"


def _listed(rows: pa.Table, indent: int) -> str:
    found = sorted(rows.to_pylist(), key=lambda row: [_sortable(value) for value in row.values()])
    return "".join(f"\n{' ' * indent}- {_flow(row)}" for row in found) + "\n" if found else " []\n"


def _sortable(value: Any) -> tuple[bool, Any]:
    return value is None, repr(value) if isinstance(value, list | tuple | dict) else value


def _flow(value: Any) -> str:
    """In one line. Numbers and times as people write them, without quotes: what they are is said by the column."""
    match value:
        case Mapping():
            return "{" + ", ".join(f"{_flow(name)}: {_flow(each)}" for name, each in value.items()) + "}"
        case list() if value and all(isinstance(each, tuple) for each in value):  # a map
            return _flow(dict(value))
        case list():
            return "[" + ", ".join(map(_flow, value)) + "]"
        case Decimal():
            return f"{value:f}"
        case date():
            return _at(value)
    import yaml

    dumped = yaml.safe_dump([value], default_flow_style=True, width=1_000_000, allow_unicode=True)
    return str(dumped).strip().removeprefix("[").removesuffix("]")


def _at(value: date) -> str:
    if not isinstance(value, datetime):
        return value.isoformat()
    at = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return at.date().isoformat() if at.time() == time() else at.isoformat(sep=" ")


def _new_name(file: Path, name: str) -> str:
    """One that the file does not have yet."""
    taken = set(re.findall(r"^(\w+):", file.read_text(encoding="utf-8"), re.MULTILINE)) if file.exists() else set()
    return next(each for each in _numbered(name) if each not in taken)


def _numbered(name: str) -> Iterable[str]:
    yield name
    for number in range(2, 10_000):
        yield f"{name}_{number}"


def _append(file: Path, text: str) -> None:
    before = file.read_text(encoding="utf-8").rstrip("\n") + "\n\n" if file.exists() else ""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(before + text, encoding="utf-8")

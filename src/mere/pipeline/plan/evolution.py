"""What a step changes in the table itself, besides its rows: its layout, and its columns as far as they are known
without Spark. Spark finds the rest before it writes anything; see `pipeline.write.table`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mere.names import TableName
from mere.pipeline.plan.steps import Action, Facts, Step
from mere.pipeline.state.columns import renames
from mere.pipeline.state.layout import layout_of
from mere.pipeline.state.state import State
from mere.project.graph import Graph
from mere.project.model import Model, Sql

_WRITES = (Action.BUILD, Action.WINDOWS, Action.ROWS, Action.KEYS, Action.LOAD)


def with_table(step: Step, state: State, facts: Facts, same_code: bool, moved: Iterable[str]) -> Step:
    """`moved`: tables that steps before will change, so that their columns are not known."""
    if step.action is Action.BLOCKED:
        return step
    words = [*_laid_out(step, state), *_alterations(step.model, facts)]
    if words and step.action is Action.SKIP:
        if early := _too_early(step.model, facts, set(moved)):
            remedy = "Use the new name in the query as well, or remove `was`."
            return Step(step.model, Action.BLOCKED, (early,), remedy=remedy)
        return replace(step, action=Action.ALTER, reasons=tuple(words))
    step = replace(step, notes=(*step.notes, *words))
    if step.action not in _WRITES or (same_code and not _columns_moved(step.model, state, facts)):
        return step
    return _without_columns(step, facts, set(moved))


def _laid_out(step: Step, state: State) -> list[str]:
    model = step.model
    if not model.kind.rules.stored or state.layout is None:
        return []
    changed = layout_of(model).since(state.layout)
    rewritten = step.action is Action.BUILD
    return [f"{', '.join(changed)} from now on{'' if rewritten else '; files stay as they are'}"] if changed else []


def _alterations(model: Model, facts: Facts) -> list[str]:
    """Of columns, as the model declares them: what can be done without a build."""
    if not model.kind.rules.stored or not (model.was or model.contract):
        return []
    columns = facts.columns(model.name)
    renamed = [str(change) for change in renames([each.name for each in columns], model.was, model.was)]
    loose = {name.casefold() for name, each in model.contract.items() if each.nullable}
    relaxed = [each.name for each in columns if each.required and each.name.casefold() in loose]
    return [*renamed, *(f"{name} may be null from now on" for name in relaxed)]


def _too_early(model: Model, facts: Facts, moved: set[str]) -> str:
    """A column that is to be renamed while the query still gives the old name: the next build would drop it."""
    given = {name.casefold() for name in (query_columns(model, facts, moved) if model.was else None) or ()}
    names = [each.name for each in facts.columns(model.name)]
    early = [each for each in renames(names, model.was, model.was) if str(each.old).casefold() in given]
    return f"{early[0]}, and its query still gives {early[0].old}" if early else ""


def tightened(model: Model, facts: Facts) -> list[str]:
    """Columns that may be null in the table, and not by the contract: nothing but a build makes that sure."""
    required = {name.casefold() for name, each in model.contract.items() if not each.nullable}
    if not required or not model.kind.rules.rebuilds:
        return []
    nullable = [each.name for each in facts.columns(model.name) if not each.required]
    return [f"{name} may no longer be null" for name in nullable if name.casefold() in required]


def _columns_moved(model: Model, state: State, facts: Facts) -> bool:
    points = (point for each in model.inputs for point in facts.points(each.table).items())
    return any(name in state.inputs and state.inputs[name].schema != point.schema for name, point in points)


def _without_columns(step: Step, facts: Facts, moved: set[str]) -> Step:
    """Blocked, if columns would go that nobody has allowed to go."""
    model = step.model
    given = query_columns(model, facts, moved)
    if given is None:
        return step
    names = [each.name for each in facts.columns(model.name)]
    before = {str(each.old).casefold() for each in renames(names, given, model.was)}
    kept = before | {name.casefold() for name in given}
    drops = tuple(name for name in names if name.casefold() not in kept)
    if not drops:
        return step
    words = f"drops {', '.join(drops)}"
    if step.breaking:
        return replace(step, drops=drops, notes=(*step.notes, words))
    return Step(model, Action.BLOCKED, (words,), drops=drops, remedy=_remedy(model, drops))


def _remedy(model: Model, drops: Sequence[str]) -> str:
    return "\n".join(
        [
            f"mere run --allow-breaking {model}   to drop {'it' if len(drops) == 1 else 'them'}",
            f"Or keep it in the query; if it has another name now: `columns: {{new_name: {{was: {drops[0]}}}}}`",
        ]
    )


def keeps_columns(step: Step) -> bool:
    """Whether those who read the table need not look at it: neither its rows nor its columns change."""
    if step.action is Action.AUDIT:
        return step.model.kind.rules.stored
    return step.action is Action.ALTER and not step.model.was


def query_columns(model: Model, facts: Facts, moved: set[str]) -> tuple[str, ...] | None:
    """None if only Spark can say which columns it has."""
    if not isinstance(model.body, Sql):
        return None
    from sqlglot import parse_one

    from mere.sql.columns import output_columns
    from mere.sql.spark.read import SparkView

    schemas = {
        each.table: tuple(column.name for column in facts.columns(each.table))
        for each in model.inputs
        if str(each.table) not in moved and facts.points(each.table)
    }
    given = output_columns(parse_one(model.body.text, dialect=SparkView), schemas)
    return given and (*given, *model.added_columns)


def with_readers(step: Step, graph: Graph, facts: Facts) -> Step:
    """Who reads the columns that go, in the words of the step."""
    if not step.drops:
        return step
    words = f"drops {', '.join(step.drops)}"
    found = (reader for each in step.drops for reader in readers_of(graph, facts, step.model.name, each))
    readers = dict.fromkeys(found)
    if not readers:
        return step
    columns = (each for each in readers if not any(each.startswith(f"{whole}.") for whole in readers))
    told = f"{words}, read by {', '.join(columns)}"
    exchanged = [tuple(told if each == words else each for each in side) for side in (step.reasons, step.notes)]
    return replace(step, reasons=exchanged[0], notes=exchanged[1])


def readers_of(graph: Graph, facts: Facts, table: TableName, column: str) -> list[str]:
    """The columns, or whole tables, that are made of a column of the table as it stands, by the models of today."""
    if not graph.readers_of(table):
        return []
    from mere.project import lineage

    others = Graph.of(model for name, model in graph.models.items() if name != table)
    made = [name for name, model in others.models.items() if not isinstance(model.body, Sql)]
    schemas = {name: tuple(each.name for each in facts.columns(name)) for name in (*others.externals, *made)}
    known = {name: columns for name, columns in schemas.items() if columns}
    return [str(each) for each in lineage.readers_of(others, known, table, column)]

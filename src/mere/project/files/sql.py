"""A SQL model: YAML in the leading comment, then one query with Jinja in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mere import entries
from mere.audits.audit import Custom
from mere.errors import ConfigError
from mere.names import TableName
from mere.project.files.defaults import Defaults
from mere.project.files.inputs import complete, in_header, refuse_lookups_in_part, with_declared, with_lookups
from mere.project.files.settings import MODEL_KEYS, NAME_RULE, Settings, read_settings, valid_name
from mere.project.files.templates import Templates
from mere.project.model import Input, Model, Sql, Time
from mere.project.problems import Problems
from mere.windows import Grain, in_words

if TYPE_CHECKING:
    from mere.project.files.query import Query
    from mere.sql.keys import Keyed

_WINDOW = frozenset({"start", "end"})
_NO_DEFAULTS = Defaults()


def split_header(text: str) -> tuple[str, str]:
    """The YAML of the leading `--` lines, and the whole text with these lines emptied: every line keeps its number."""
    lines = text.splitlines()
    count = next((at for at, line in enumerate(lines) if not line.startswith("--")), len(lines))
    header = "\n".join(line.removeprefix("--").removeprefix(" ") for line in lines[:count])
    return header, "\n" * count + "\n".join(lines[count:])


def named_by_path(path: Path, top: str) -> TableName:
    """models/<schema>/<name>.sql"""
    parts = path.with_suffix("").parts[1:]
    if len(parts) != 2:
        raise ConfigError(
            "a model's folder is its schema",
            remedy=f"Move it to {top}/<schema>/{path.name}.",
            file=path.as_posix(),
        )
    if not valid_name(*parts):
        raise ConfigError(f"`{'.'.join(parts)}` cannot be a model's name", remedy=NAME_RULE, file=path.as_posix())
    return TableName(*parts)


def read_sql(
    path: Path, text: str, customs: Mapping[str, Custom], templates: Templates, defaults: Defaults = _NO_DEFAULTS
) -> Model:
    """The model, or a ProjectError with all that is wrong in the file. `path` is relative to the project."""
    problems = Problems()
    file = path.as_posix()
    name = TableName("", "")
    with problems.gather():
        name = named_by_path(path, "models")
    header, body = split_header(text)
    settings, query = Settings(), None
    with problems.gather():
        given = defaults.of(path, name.namespace)
        settings = read_settings(entries.parse(header, path, margin=3), MODEL_KEYS, customs, problems, defaults=given)
    time: Time | None = settings.fields.get("time")
    with problems.gather():
        query, line = _query(file, body, templates, problems, time or Time("", Grain.DAY))
    if query is None:
        problems.raise_any()
    assert query is not None
    _check_placeholders(settings, query, file, line, problems)
    by_key = _keys(settings, query)
    found = [
        Input(
            read.table,
            read.line,
            read.time if settings.kind.rules.windows else None,
            key=tuple(by_key[read.table].key.items()) if read.table in by_key else (),
            rowwise=read.table in by_key and by_key[read.table].rowwise,
        )
        for read in query.reads
    ]
    audits = settings.fields.get("audits", ())
    key = settings.fields.get("key", ())
    inputs = with_declared(with_lookups(found, audits), settings.inputs, problems, key)
    doubts = {table: each.why for table, each in by_key.items()} if by_key else _doubts(query)
    inputs_of_kind = complete(settings.kind, inputs, file, line, in_header, problems, doubts)
    refuse_lookups_in_part(inputs_of_kind, audits, problems)
    _refuse_shifted(settings, query, problems)
    _refuse_met_again(query, inputs_of_kind, file, problems)
    _refuse_taken(settings, query, file, line, problems)
    if time and not any(place.time for place in settings.inputs.values()):
        query.times.check_output(time.column)
    problems.raise_any()
    return Model(name, settings.kind, file, Sql(query.text, line), inputs_of_kind, **settings.fields)


def _query(file: str, body: str, templates: Templates, problems: Problems, time: Time) -> tuple[Query | None, int]:
    from mere.project.files.query import analyze

    rendered = templates.render(file, body)
    text = rendered.lstrip()
    line = rendered[: len(rendered) - len(text)].count("\n") + 1
    return analyze(text, file, line, problems, time.grain, time.context), line


def _keys(settings: Settings, query: Query) -> Mapping[TableName, Keyed]:
    """By which columns the tables are read, if the model is built by its key."""
    if not settings.kind.rules.by_key:
        return {}
    from sqlglot import exp

    from mere.sql.keys import keys_of

    return keys_of(query.tree, {name: exp.column(name) for name in settings.fields.get("key", ())})


def _doubts(query: Query) -> dict[TableName, str]:
    """Why a table that is compared with the window's bounds is not read by time nonetheless."""
    doubts = {}
    for read in query.reads:
        if read.shifted:
            doubts[read.table] = f"`{read.shifted}` reads rows of other windows (how far back it looks, `context` says)"
        elif read.mixed:
            doubts[read.table] = f"`{read.mixed}` mixes rows of several times before they are cut to the window"
    return doubts


def _refuse_taken(settings: Settings, query: Query, file: str, line: int, problems: Problems) -> None:
    """Columns of the query that have the name of one that mere adds."""
    from mere.sql.columns import output_columns

    added = settings.kind.rules.adds
    for name in (output_columns(query.tree, {}) or ()) if added else ():
        if name.lower() in added:
            message = f"`{name}` is a column that mere itself adds to an {settings.kind} model"
            remedy = f"Rename it: {name} AS …"
            problems.add(ConfigError(message, remedy=remedy, file=file, line=line))


def _refuse_shifted(settings: Settings, query: Query, problems: Problems) -> None:
    for read in query.reads:
        place = settings.inputs.get(read.table)
        if place is not None and place.time and read.shifted and not read.time:
            problems.add(
                place.entry.error(
                    f"`{read.shifted}` reads rows of other windows: a change of {read.table} would be missed there",
                    f"It is read whole: {in_header(read.table, 'on_change', 'rebuild')}, or write `kind: full`.",
                )
            )


def _refuse_met_again(query: Query, inputs: Iterable[Input], file: str, problems: Problems) -> None:
    """New rows would meet new rows alone, and never those that came before."""
    new = {each.table for each in inputs if each.new_rows or each.changes}
    for read in query.reads:
        if read.table in new and read.again is not None:
            problems.add(
                ConfigError(
                    f"{read.table} is read twice, and an append model gets its new rows alone, in both places",
                    remedy=f"Where all rows are meant, read a view of it (`-- kind: view`, SELECT * FROM {read.table});"
                    f" for the other write {in_header(read.table, 'new_rows', 'true')}.",
                    file=file,
                    line=read.again,
                )
            )


def _check_placeholders(settings: Settings, query: Query, file: str, line: int, problems: Problems) -> None:
    used = query.placeholders

    def problem(message: str, remedy: str) -> None:
        problems.add(ConfigError(message, remedy=remedy, file=file, line=line))

    if settings.kind.rules.windows:
        time: Time | None = settings.fields.get("time")
        declared = any(place.time for place in settings.inputs.values())
        if time and time.context and not query.times.looks_back and not declared:
            problem(
                "`context` is declared, but the query looks at nothing before its window",
                f"Write `column >= :start - INTERVAL {in_words(time.context).upper()}`, or remove it.",
            )
        if missing := sorted(_WINDOW - used, reverse=True):
            problem(
                f"an incremental query must use {' and '.join(f':{name}' for name in missing)}",
                "Filter it to the window: WHERE column >= :start AND column < :end.",
            )
    elif used & _WINDOW:
        problem(
            f":start and :end are known only to an incremental model, and this is {settings.kind}",
            "Write `kind: incremental` and `time_column:`.",
        )
    now = settings.fields.get("now")
    if "now" in used and (refused := settings.kind.rules.no_now):
        problem(refused[0].format("use :now"), refused[1])
    elif "now" in used and now is None:
        problem(":now needs a precision: how often it causes a rebuild", "Write for example `now: day`.")
    elif now is not None and "now" not in used:
        problem("`now` is declared, but the query does not use :now", "Remove it.")

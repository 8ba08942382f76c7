"""Turns the options of a run into a request, with the project as it is when the run begins."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from mere.api.choice import Choice, Names, RunOptions, names_of
from mere.errors import UsageError
from mere.lake.log.refs import RefLike, spelled
from mere.lake.log.runs import Run
from mere.names import MAIN
from mere.pipeline.run.request import IfRunning, Project, Request
from mere.ranges import at_least

_ID = re.compile(r"[0-9a-f]{12}")
Read = Callable[[Mapping[str, str] | None], Project]


def prepared(
    select: Names, options: RunOptions, given: Mapping[str, str], read: Read, run: Callable[[str], Run]
) -> tuple[Project, Request]:
    """`given`: variables; a run that is resumed has those that it began with."""
    choice = _choice(select, options)
    at_least(1, threads=options.get("threads"))
    if_running = _if_running(options.get("if_running", IfRunning.WAIT))
    resume, variables = options.get("resume"), None
    _check_id(options.get("id"), resume)
    if resume:
        _refuse_another_wish(choice.decided)
        past = run(resume)
        variables = past.about.get("variables", {})
        _refuse_another_wish("--var" if given and given != variables else None)
        _refuse_another_target(options.get("on"), past)
        choice = replace(choice, on=past.target)
    project = read(variables)
    wanted = choice.request(project)
    accepted = frozenset(name for each in names_of(options.get("accept", ())) for name in project.graph.select([each]))
    return project, replace(
        wanted,
        wish=replace(wanted.wish, accepted=accepted),
        resume=resume,
        if_running=if_running,
        threads=options.get("threads", 4),
        message=options.get("message"),
        id=options.get("id"),
    )


def _choice(select: Names, options: RunOptions) -> Choice:
    return Choice(
        select=select,
        on=spelled(options.get("on") or MAIN),
        full_refresh=options.get("full_refresh", False),
        start=options.get("start"),
        end=options.get("end"),
        forward_only=options.get("forward_only", False),
        allow_breaking=options.get("allow_breaking", False),
        limit_windows=options.get("limit_windows"),
        sample=options.get("sample"),
        check=options.get("check", True),
    )


def _check_id(given: str | None, resume: str | None) -> None:
    if given is not None and resume:
        raise UsageError("A run that is resumed has its id already.", remedy="Leave out --id.")
    if given is not None and not _ID.fullmatch(given):
        raise UsageError(f"{given!r} is not an id of a run: it has 12 hex digits, in small letters.")


def _refuse_another_wish(option: str | None) -> None:
    if option:
        raise UsageError("A resumed run keeps its own options.", remedy=f"Leave out {option}.")


def _refuse_another_target(on: RefLike | None, past: Run) -> None:
    if on is not None and (on := spelled(on)) != past.target:
        raise UsageError(f"Run {past.id} is for {past.target}, not for {on}.", remedy="Leave out --on.")


def _if_running(given: str) -> IfRunning:
    try:
        return IfRunning(given)
    except ValueError:
        ways = ", ".join(IfRunning)
        raise UsageError(f"--if-running {given} is none of: {ways}.") from None

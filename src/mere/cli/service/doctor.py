"""mere doctor."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mere import config
from mere.cli.commands import as_typed
from mere.cli.output import example, json_option, open_lake, print_json
from mere.text.words import counted

if TYPE_CHECKING:
    from mere.doctor import Check, Finding

_MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "failed": ("✗", "red"), "skipped": ("–", None)}


@click.command(epilog=example("mere doctor", "mere doctor --no-spark --json", "mere doctor --mend"))
@click.option("--no-spark", is_flag=True, help="Skip the Spark job, by far the slowest check.")
@click.option("--mend", is_flag=True, help="First recreate catalog guards that are missing or altered.")
@json_option
@click.pass_context
def doctor(ctx: click.Context, no_spark: bool, mend: bool, as_json: bool) -> None:
    """Check every part of mere, and say how to fix what is wrong.

    Checks the machine, Java, jars, DuckDB; with a project also its mere.yaml, storage and catalog, and a small
    Spark job. Whatever it writes is removed. Exits with 1 if a check failed.
    """
    from mere.doctor import State, Subject, checks, examine  # `mere --help` imports this module, too

    options = ctx.find_root().obj
    file = None if options["lake"] else config.find_project(Path.cwd())
    has_lake = bool(file or options["lake"])
    with closing(Subject(file, options["profile"], (lambda: open_lake(ctx)) if has_lake else None)) as subject:
        chosen = checks(subject, mend=mend, with_spark=not no_spark)
        found = examine(chosen, subject)
        findings = list(found) if as_json else _print(chosen, found)
    failed = any(finding.state is State.FAILED for finding in findings)
    if as_json:
        print_json({"ok": not failed, "findings": [asdict(finding) for finding in findings]})
    if failed:
        ctx.exit(1)


def _print(checks: Iterable[Check], findings: Iterable[Finding]) -> list[Finding]:
    """Each finding as it comes: nobody should look at an empty screen while Spark starts."""
    widths = [max(map(len, names)) for names in zip(*((check.part, check.name) for check in checks), strict=True)]
    told: list[Finding] = []
    for finding in findings:
        part = "" if told and told[-1].part == finding.part else finding.part
        mark, colour = _MARKS[finding.state]
        click.secho(mark, fg=colour, nl=False)
        took = f"  ({finding.seconds:.1f} s)" if finding.seconds >= 1 else ""
        first, *more = finding.what.splitlines() or [""]
        click.echo(f" {part:<{widths[0]}}  {finding.check:<{widths[1]}}  {first}{took}")
        remedy = as_typed(finding.remedy or "").splitlines()
        indent = " " * (widths[0] + widths[1] + 6)
        for line in (*more, *(f"→ {line}" if number == 0 else f"  {line}" for number, line in enumerate(remedy))):
            click.echo(f"{indent}{line}")
        told.append(finding)
    states = [str(finding.state) for finding in told]
    words = {"failed": "failed", "warn": "warned", "skipped": "skipped"}
    rest = "".join(f", {states.count(state)} {word}" for state, word in words.items() if state in states)
    click.echo(f"{counted(len(told), 'check')}{rest or ', all is well'}")
    return told

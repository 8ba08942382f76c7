"""mere check."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mere import config
from mere.cli.output import example, json_option, open_lake, parse_variables, print_json, say
from mere.errors import ConfigError, LakeError
from mere.lake.query.tables import TableSet
from mere.project.check.check import Checked, Finding
from mere.project.check.check import check as check_project
from mere.words import counted


@click.command(epilog=example("mere check", "mere check 'gold.*' --strict", "mere check --at dev --var currency=USD"))
@click.argument("select", nargs=-1)
@click.option("--at", metavar="REF", help="The ref on which tables that no model makes are looked up. Default: main.")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="In place of the one in mere.yaml.")
@click.option("--strict", is_flag=True, help="Warnings are errors.")
@json_option
@click.pass_context
def check(
    ctx: click.Context, select: Sequence[str], at: str | None, variables: Sequence[str], strict: bool, as_json: bool
) -> None:
    """Look for mistakes in the project's files, without a JVM. Exits with 1 if there are errors.

    SELECT: names, globs ('gold.*'), tag:NAME, owner:NAME; +NAME with all upstream, NAME+ with all downstream.
    Default: all models.
    """
    path = config.find_project(Path.cwd())
    if path is None:
        raise ConfigError("There is no mere.yaml here or in a folder above.", remedy="Make a project: mere init DIR.")
    checked = check_project(path.parent, select, parse_variables(variables), tables_if_any(ctx, at))
    failed = [each for each in checked.findings if each.is_error or strict]
    if as_json:
        print_json(_json(checked, failed))
    else:
        _print(checked, failed)
    if failed:
        ctx.exit(1)


def tables_if_any(ctx: click.Context, at: str | None) -> TableSet | None:
    """A project can be looked at where its lake is not, such as in a merge request."""
    try:
        return open_lake(ctx).at(at or "main")
    except (LakeError, ConfigError) as error:
        if at is not None:
            raise
        click.echo(f"without the lake, so columns of its tables are not known: {error.message}", err=True)
        return None


def _print(checked: Checked, failed: Sequence[Finding]) -> None:
    for finding in checked.findings:
        is_error = finding in failed
        click.secho("error" if is_error else "warning", fg="red" if is_error else "yellow", nl=False)
        click.echo(f" {finding.rule}: {finding.place}: {finding.message}")
        if finding.remedy:
            say(f"  {finding.remedy}")
    warnings = len(checked.findings) - len(failed)
    counts = f"{counted(len(failed), 'error')}, {counted(warnings, 'warning')}"
    say(f"{counted(checked.models, 'model')}: {counts}" if checked.models else counts)


def _json(checked: Checked, failed: Sequence[Finding]) -> dict[str, Any]:
    return {
        "models": checked.models,
        "errors": len(failed),
        "warnings": len(checked.findings) - len(failed),
        "findings": [
            finding_json(each) | {"severity": "error" if each in failed else "warning"} for each in checked.findings
        ],
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": "error" if finding.is_error else "warning",
        "model": finding.model,
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "message": finding.message,
        "remedy": finding.remedy,
    }

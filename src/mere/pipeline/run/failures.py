"""What a run says whose models have failed."""

from __future__ import annotations

from collections.abc import Mapping

from mere.errors import MereError, RunFailed
from mere.lake.log.runs import Run
from mere.names import TableName
from mere.pipeline.build.model import AuditFailed
from mere.pipeline.plan.remedies import on_branch
from mere.pipeline.run.record import Outcome
from mere.pipeline.run.schedule import Failure, Unbuilt


def refuse(run: Run, outcomes: Mapping[TableName, Outcome], has_built: bool, untouched: str) -> None:
    """RunFailed if any has. `has_built`: there is something on its branch to look at."""
    failures = {name: each.error for name, each in outcomes.items() if isinstance(each, Failure)}
    if not failures:
        return
    for mistake in failures.values():
        if not isinstance(mistake, MereError):
            raise mistake  # our own: with its traceback
    failed = {name: error for name, error in failures.items() if isinstance(error, MereError)}
    unbuilt = [str(name) for name, each in outcomes.items() if isinstance(each, Unbuilt)]
    alike: dict[str, list[str]] = {}  # when Spark dies, all that was being built fails of the same
    for name, error in failed.items():
        alike.setdefault(error.message, []).append(str(name))
    lines = [f"{', '.join(names)} failed: {message}" for message, names in alike.items()]
    lines += [f"not built because of that: {', '.join(unbuilt)}"] if unbuilt else []
    lines.append(untouched)
    given = dict.fromkeys(error.remedy for error in failed.values() if error.remedy)
    remedies = [on_branch(each, run.target, run.branch) for each in given]
    audited = next((name for name, error in failed.items() if isinstance(error, AuditFailed)), None)
    look = f"sql --at {run.branch} 'from {audited}'" if audited else f"tables --at {run.branch}"
    where = [f"Look at it:  mere {look}"] if has_built else []
    again = f"Fix it and resume:  mere run --resume {run.id}"
    raise RunFailed("\n".join(lines), remedy="\n".join([*remedies, *where, again]))

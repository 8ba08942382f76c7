"""What a test needs to be started, told from its fixtures; and in which process and order the files of tests run."""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests.lake.places import POSTGRES, S3

MARKS = {
    "warm_jvm": "spark",
    "warm_engine": "spark",
    "postgres_server": "service",
    "s3_server": "service",
    "rest_server": "service",
    "trino_server": "service",
}


def mark(item: pytest.Item) -> None:
    """As far as its fixtures and the places of its lakes tell. A test that asks for a fixture as it runs is marked by
    hand, and fails if it is not."""
    for fixture in getattr(item, "fixturenames", ()):
        if fixture in MARKS:
            item.add_marker(MARKS[fixture])
        if fixture == "trino_server":  # 540 MB, and half a minute until it answers
            item.add_marker("long")
    callspec = getattr(item, "callspec", None)
    if callspec and {POSTGRES, S3} & {value for value in callspec.params.values() if isinstance(value, str)}:
        item.add_marker("service")


def is_marked(item: pytest.Item, fixture: str) -> bool:
    return fixture not in MARKS or item.get_closest_marker(MARKS[fixture]) is not None


def spark_first(items: list[pytest.Item]) -> None:
    """The files that need the suite's warm JVM, and then all others."""
    spark = {item.path for item in items if item.get_closest_marker("spark")}
    items.sort(key=lambda item: item.path not in spark)


class FromBothEnds(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """The first process takes files from the front of the queue, where Spark is needed, every other one from its end.

    A JVM takes seconds to start and a minute to become fast: as long as there is other work, one process has it alone.
    """

    def __init__(self, config: pytest.Config, log: object) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # it would put the files with the most tests first

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node is not self.nodes[0]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

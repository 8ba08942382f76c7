"""Runs from Python: events as objects, threads, stopping, and what is edited between two runs of one process."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mere.api.events import Began, Building, Built, Ended, Event, Failed, Planned, Published, RunState
from mere.errors import RunFailed, UsageError
from tests.api.conftest import MakeShop

FILES = {
    "seeds/raw/orders.csv": "id,amount,city\n1,20,Bern\n2,30,Rome\n",
    "models/gold/revenue.sql": "SELECT city, sum(amount) AS revenue FROM raw.orders GROUP BY city\n",
}
BAD = "-- audits:\n--   - assert: revenue > 25\n" + FILES["models/gold/revenue.sql"]


def test_a_run_tells_of_itself_and_gives_what_came_of_it(shop: MakeShop) -> None:
    it, project = shop(FILES)
    heard: list[object] = []
    result = project.run(message="first", listen=heard.append)
    assert [type(each) for each in heard if isinstance(each, Began | Planned | Published | Ended)] == [
        Began, Planned, Published, Ended,
    ]  # fmt: skip
    assert {each.model for each in heard if isinstance(each, Built)} == {"raw.orders", "gold.revenue"}
    assert result.state is RunState.PUBLISHED
    assert result.commit == next(iter(it.lake.log()))
    assert (result.rows_added, result.built) == (4, ("raw.orders", "gold.revenue"))
    assert result.to_dict()["run"] == project.run_record(str(result.id)).to_dict()
    assert "gold.revenue" in result._repr_html_()
    assert result.commit is not None
    assert repr(result) == f"<RunResult run {result.id}: published, commit {result.commit.short_id}, 2 models built>"
    assert repr(project.runs()[0]).startswith(f"<Run {result.id} for main: succeeded, started 20")
    assert "gold.revenue" in project.run_record(str(result.id))._repr_html_()
    assert project.run().state is RunState.NOTHING
    it.write({"models/gold/revenue.sql": FILES["models/gold/revenue.sql"].replace("sum(", "max(")})
    assert project.run().built == ("gold.revenue",)  # what was edited is seen
    assert dict(project.lake.sql("from gold.revenue")) == {"Bern": 20, "Rome": 30}


def test_a_run_that_fails_raises_with_its_record_and_goes_on(shop: MakeShop) -> None:
    it, project = shop({**FILES, "models/gold/revenue.sql": BAD})
    with pytest.raises(RunFailed, match="1 of 2 rows is bad") as failed, project.start() as run:
        events = list(run)
    assert [each.model for each in events if isinstance(each, Failed)] == ["gold.revenue"]
    assert failed.value.run is not None
    assert run.id == failed.value.run.id
    assert "raw.orders" not in it.lake.at("main")
    it.write({"models/gold/revenue.sql": BAD.replace("> 25", "> 15")})
    assert project.run(resume=run.id).state is RunState.PUBLISHED


def test_a_run_that_built_nothing_points_to_no_branch(shop: MakeShop) -> None:
    _, project = shop({"models/gold/x.sql": "SELECT raise_error('no such luck') AS x\n"})
    with pytest.raises(RunFailed) as failed:
        project.run()
    assert "main was left as it was. Nothing was built." in failed.value.message
    assert "Look at it" not in str(failed.value.remedy)
    assert "--resume" in str(failed.value.remedy)


def test_a_resumed_run_keeps_its_message_unless_it_is_given_another(shop: MakeShop) -> None:
    it, project = shop(FILES)
    messages = []
    for number, again in enumerate((None, "another")):
        bad = BAD.replace("sum(amount)", f"sum(amount + {number})")
        it.write({"models/gold/revenue.sql": bad})
        with pytest.raises(RunFailed) as failed:
            project.run(message="first")
        it.write({"models/gold/revenue.sql": bad.replace("> 25", "> 15")})
        assert failed.value.run is not None
        done = project.run(resume=failed.value.run.id, message=again)
        assert done.commit is not None
        messages.append(done.commit.message)
    assert messages == ["first", "another"]


def test_windows_are_not_asked_of_a_model_without_any(shop: MakeShop) -> None:
    _, project = shop(FILES)
    project.run()
    with pytest.raises(UsageError, match="built as a whole, not window by window"):
        project.plan("gold.revenue", start="2026-01-01")


def test_runs_of_several_threads_follow_each_other(shop: MakeShop) -> None:
    _, project = shop(FILES)
    with ThreadPoolExecutor() as pool:
        states = sorted(result.state for result in pool.map(lambda _: project.run(), range(3)))
    assert states == [RunState.NOTHING, RunState.NOTHING, RunState.PUBLISHED]


def test_a_run_is_stopped_from_outside(shop: MakeShop) -> None:
    _, project = shop(FILES)
    run = project.start()
    for event in run:
        if isinstance(event, Began):
            run.stop()
    with pytest.raises(RunFailed, match="was stopped") as stopped:
        run.result()
    assert stopped.value.remedy == f"Go on with it: mere run --resume {run.id}"
    assert run.ended
    assert project.runs()[0].status == "cancelled"


def test_an_exception_of_who_listens_stops_the_run_and_comes_out_as_it_is(shop: MakeShop) -> None:
    _, project = shop(FILES)
    heard: list[str] = []

    def listen(event: Event) -> None:
        heard.append(event.kind)
        if isinstance(event, Building):
            raise LookupError("a mistake of the caller")

    with pytest.raises(LookupError, match="a mistake of the caller") as raised:
        project.run(listen=listen)
    run = project.runs()[0]
    assert raised.value.__notes__ == [f"Raised by what listens to run {run.id}."]
    assert heard.count("building") == 1
    assert run.status == "cancelled"
    assert project.run(resume=run.id).state == "published"


def test_a_block_that_ends_by_an_exception_stops_its_run(shop: MakeShop) -> None:
    _, project = shop(FILES)

    def give_up() -> None:
        with project.start() as run:
            for event in run:
                if isinstance(event, Began):
                    raise KeyError(event.id)

    with pytest.raises(KeyError):
        give_up()
    assert project.runs()[0].status == "cancelled"
    assert project.run().state is RunState.PUBLISHED


def test_ctrl_c_cancels_a_run_and_leaves_the_process_usable(shop: MakeShop) -> None:
    _, project = shop(FILES)

    def interrupt(event: object) -> None:
        if isinstance(event, Planned):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        project.run(listen=interrupt)
    assert project.runs()[0].status == "cancelled"
    assert "raw.orders" not in project.lake.at("main")
    assert project.run().state is RunState.PUBLISHED


def test_unit_tests_show_themselves(shop: MakeShop) -> None:
    case = """
        revenue_is_summed:
          model: gold.revenue
          given:
            raw.orders:
              - {id: 1, amount: 2, city: <script>}
          expect:
            - {city: <script>, revenue: 3}
        """
    _, project = shop({**FILES, "tests/revenue.yaml": case})
    found = project.test()
    assert found.counts == "1 test: 0 passed, 1 failed"
    assert "<script" not in found._repr_html_()
    assert "revenue_is_summed" in found._repr_html_()

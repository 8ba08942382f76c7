"""Which column of an input says in which window its rows lie."""

from __future__ import annotations

import pytest

from mere.names import TableName
from mere.project.files.query import analyze, copied_from
from mere.project.problems import Problems
from mere.windows import Grain

WINDOW = "{0} >= :start AND {0} < :end"


def times(sql: str, grain: Grain = Grain.DAY) -> dict[str, str | None]:
    problems = Problems()
    query = analyze(sql, "x.sql", 1, problems, grain)
    problems.raise_any()
    assert query is not None
    return {str(read.table): read.time for read in query.reads}


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT * FROM a.b WHERE d >= :start AND d < :end", {"a.b": "d"}),
        ("SELECT * FROM a.b WHERE :start <= d AND :end > d AND x = 1", {"a.b": "d"}),
        ("SELECT * FROM a.b WHERE (d >= :start) AND (x OR y) AND (d < :end)", {"a.b": "d"}),
        ("SELECT * FROM a.b o WHERE CAST(o.d AS DATE) >= :start AND date(o.d) < CAST(:end AS DATE)", {"a.b": "d"}),
        ("SELECT * FROM a.b WHERE b.d >= :start AND b.d < :end", {"a.b": "d"}),
        ("SELECT * FROM a.b AS O WHERE o.D >= :start AND O.d < :end", {"a.b": "D"}),
        ("WITH Q AS (SELECT D FROM a.b) SELECT d FROM q WHERE Q.d >= :start AND q.D < :end", {"a.b": "D"}),
        (f"FROM a.b SELECT D WHERE {WINDOW.format('D')} UNION ALL FROM a.b SELECT d WHERE {WINDOW.format('d')}",
         {"a.b": "d"}),
        ("SELECT * FROM a.b WHERE `D` >= :start AND `D` < :end", {"a.b": "D"}),
        # through other names
        ("WITH o AS (SELECT * FROM a.b) SELECT * FROM o WHERE d >= :start AND d < :end", {"a.b": "d"}),
        ("WITH o AS (SELECT at AS d FROM a.b) SELECT * FROM o x WHERE x.d >= :start AND x.d < :end", {"a.b": "at"}),
        (("WITH o AS (SELECT date(at) d FROM a.b), p AS (SELECT * FROM o) SELECT * FROM p"
          " WHERE d >= :start AND d < :end"), {"a.b": "at"}),
        ("SELECT * FROM (SELECT d, sum(x) FROM a.b GROUP BY d) s WHERE s.d >= :start AND s.d < :end", {"a.b": "d"}),
        ("SELECT * FROM a.c WHERE id IN (SELECT id FROM a.b WHERE d >= :start AND d < :end)",
         {"a.c": None, "a.b": "d"}),
        # unions
        ("SELECT d FROM a.b WHERE d >= :start AND d < :end UNION ALL SELECT e FROM a.c WHERE e >= :start AND e < :end",
         {"a.b": "d", "a.c": "e"}),
        (("WITH u AS (SELECT x, d FROM a.b UNION ALL SELECT y, e FROM a.c) SELECT * FROM u"
          " WHERE d >= :start AND d < :end"), {"a.b": "d", "a.c": "e"}),
        (("WITH u AS (SELECT x, d FROM a.b EXCEPT SELECT y, e FROM a.c) SELECT * FROM u"
          " WHERE d >= :start AND d < :end"), {"a.b": "d", "a.c": None}),
        (("WITH u AS (SELECT x, d FROM a.b UNION ALL SELECT 1, date(e) FROM a.c) SELECT * FROM u"
          " WHERE d >= :start AND d < :end"), {"a.b": "d", "a.c": "e"}),
        # the names of columns stand elsewhere
        ("WITH o(i, t) AS (SELECT id, d FROM a.b) SELECT * FROM o WHERE t >= :start AND t < :end", {"a.b": "d"}),
        ("SELECT * FROM (SELECT id, d FROM a.b) AS o(i, t) WHERE o.t >= :start AND o.t < :end", {"a.b": "d"}),
        ("WITH o AS (SELECT *, date(at) AS d FROM a.b) SELECT * FROM o WHERE d >= :start AND d < :end", {"a.b": "at"}),
        ("SELECT * FROM (SELECT * EXCEPT (d) FROM a.b) WHERE d >= :start AND d < :end", {"a.b": None}),
        ("SELECT * FROM a.b LATERAL VIEW explode(items) t AS item WHERE d >= :start AND d < :end", {"a.b": "d"}),
        ("SELECT * FROM a.b AS o(id, d) WHERE o.d >= :start AND o.d < :end", {"a.b": None}),
        # joins
        (("SELECT * FROM a.b o JOIN a.c p ON o.id = p.id AND p.e >= :start AND p.e < :end"
          " WHERE o.d >= :start AND o.d < :end"), {"a.b": "d", "a.c": "e"}),
        ("SELECT * FROM a.b o LEFT JOIN a.c p ON o.id = p.id AND p.e >= :start AND p.e < :end",
         {"a.b": None, "a.c": "e"}),
        ("SELECT * FROM a.b o LEFT JOIN a.c p ON o.id = p.id AND o.d >= :start AND o.d < :end",
         {"a.b": None, "a.c": None}),
        ("SELECT * FROM a.b o LEFT SEMI JOIN a.c p ON o.id = p.id AND p.e >= :start AND p.e < :end",
         {"a.b": None, "a.c": "e"}),
        ("SELECT a.t.x FROM a.t JOIN b.t ON a.t.id = b.t.id WHERE a.t.d >= :start AND a.t.d < :end",
         {"a.t": None, "b.t": None}),
        ("SELECT * FROM a.b LATERAL VIEW explode((SELECT x FROM a.c)) t AS y WHERE b.d >= :start AND b.d < :end",
         {"a.b": "d", "a.c": None}),
        ("SELECT * FROM f(TABLE(SELECT * FROM a.b WHERE d >= :start AND d < :end))", {"a.b": "d"}),
        # a bare name beside two tables may be of either
        ("SELECT * FROM a.b JOIN a.c USING (id) WHERE d >= :start AND d < :end", {"a.b": None, "a.c": None}),
        ("WITH o AS (SELECT id, d FROM a.b) SELECT * FROM o JOIN a.c USING (id) WHERE d >= :start AND d < :end",
         {"a.b": "d", "a.c": None}),
        ("WITH o AS (SELECT * FROM a.b) SELECT * FROM o JOIN a.c USING (id) WHERE d >= :start AND d < :end",
         {"a.b": None, "a.c": None}),
        # rows get past the comparison, or the windows are others
        ("SELECT * FROM a.b WHERE d >= :start OR d < :end", {"a.b": None}),
        ("SELECT * FROM a.b WHERE NOT (d >= :start AND d < :end)", {"a.b": None}),
        ("SELECT * FROM a.b WHERE d >= :start AND e < :end", {"a.b": None}),
        ("SELECT * FROM a.b WHERE d >= :start", {"a.b": None}),
        ("SELECT * FROM a.b WHERE date_add(d, 1) >= :start AND date_add(d, 1) < :end", {"a.b": None}),
        ("SELECT * FROM a.b WHERE d >= :start - INTERVAL 30 DAYS AND d < :end", {"a.b": None}),
        ("SELECT CASE WHEN d >= :start AND d < :end THEN 1 END FROM a.b", {"a.b": None}),
        # once by windows, once whole
        ("SELECT * FROM a.b WHERE d >= :start AND d < :end AND x > (SELECT avg(x) FROM a.b)", {"a.b": None}),
        (("SELECT * FROM a.b x JOIN a.b y ON x.id = y.id WHERE x.d >= :start AND x.d < :end"
          " AND y.d >= :start AND y.d < :end"), {"a.b": "d"}),
    ],
)  # fmt: skip
def test_the_time_column_is_found_by_lineage(sql: str, found: dict[str, str | None]) -> None:
    assert times(sql) == found


@pytest.mark.parametrize(
    "condition", ["d BETWEEN :start AND :end", "d >= :start AND d <= :end", ":start < d", "d = :start"]
)
def test_a_window_that_is_not_half_open_is_refused(condition: str) -> None:
    problems = Problems()
    analyze(f"SELECT * FROM a.b\nWHERE {condition}", "x.sql", 1, problems)
    assert [each.line for each in problems.found] == [2]
    assert "a window begins with :start and ends before :end" in problems.found[0].problem


IN_WINDOW = "WHERE at >= :start AND at < :end"


@pytest.mark.parametrize(
    ("inner", "grain", "is_apart"),
    [
        ("SELECT id, at, row_number() OVER (PARTITION BY id ORDER BY at) AS rn FROM a.b", "day", False),
        ("SELECT id, at, row_number() OVER (PARTITION BY id, date(at) ORDER BY at) AS rn FROM a.b", "day", True),
        ("SELECT id, at, row_number() OVER (PARTITION BY id, date(at) ORDER BY at) AS rn FROM a.b", "hour", False),
        ("SELECT id, at, sum(x) OVER (PARTITION BY date_trunc('HOUR', at)) AS s FROM a.b", "hour", True),
        ("SELECT id, at, sum(x) OVER (PARTITION BY date_trunc('month', at)) AS s FROM a.b", "month", True),
        ("SELECT id, at, sum(x) OVER (PARTITION BY date_trunc('month', at)) AS s FROM a.b", "week", False),
        ("SELECT id, at, sum(x) OVER (PARTITION BY trunc(at, 'MM')) AS s FROM a.b", "year", True),
        ("SELECT id, at, sum(x) OVER w AS s FROM a.b WINDOW w AS (PARTITION BY id)", "day", False),
        ("SELECT id, at, sum(x) OVER w AS s FROM a.b WINDOW w AS (PARTITION BY id, at)", "day", True),
        ("SELECT id, at FROM a.b QUALIFY row_number() OVER (PARTITION BY id ORDER BY at) = 1", "day", False),
        ("SELECT id, max(at) AS at FROM a.b GROUP BY id", "day", False),
        ("SELECT id, max(at) AS at FROM a.b GROUP BY id, date(at)", "day", True),
        ("SELECT max(at) AS at FROM a.b", "day", False),
        ("SELECT id, date(at) AS at FROM a.b GROUP BY id, at", "day", True),
        ("SELECT id, date(at) AS at FROM a.b GROUP BY 1, 2", "day", True),
        ("SELECT id, date(at) AS at FROM a.b GROUP BY ALL", "day", True),
        ("SELECT id, date(at) AS at, count(*) AS n FROM a.b GROUP BY id, at WITH CUBE", "day", False),
        ("SELECT DISTINCT id, at FROM a.b", "day", True),
        ("SELECT id, at FROM a.b ORDER BY id LIMIT 10", "day", False),
        ("SELECT * FROM ((SELECT id, at FROM a.b) LIMIT 10)", "day", False),
        ("SELECT id, at FROM a.b UNION SELECT id, at FROM a.b LIMIT 10", "day", False),
        ("SELECT id, at FROM a.b UNION SELECT id, at FROM a.b", "day", True),
        ("SELECT at, s FROM a.b PIVOT (sum(x) AS s FOR id IN (1))", "day", False),
        # one layer down
        ("SELECT * FROM (SELECT id, at, lag(x) OVER (PARTITION BY id ORDER BY at) AS y FROM a.b)", "day", False),
        ("SELECT at, max(y) OVER (PARTITION BY d) FROM (SELECT at, date(at) AS d, y FROM a.b)", "day", True),
        ("SELECT at, n FROM a.b JOIN (SELECT id, count(*) AS n FROM a.c GROUP BY id) USING (id)", "day", True),
    ],
)
def test_rows_that_are_mixed_before_they_are_cut_to_the_window_have_no_time(
    inner: str, grain: str, is_apart: bool
) -> None:
    found = times(f"WITH x AS ({inner}) SELECT * FROM x {IN_WINDOW}", Grain(grain))
    assert found["a.b"] == ("at" if is_apart else None)


def test_both_bounds_have_to_come_before_what_mixes_rows() -> None:
    mixed = "SELECT at, lag(y) OVER (ORDER BY at) AS y FROM a.b"
    assert times(f"WITH x AS ({mixed} WHERE at >= :start) SELECT at FROM x WHERE at < :end") == {"a.b": None}
    assert times(f"WITH x AS ({mixed} {IN_WINDOW}) SELECT at FROM x {IN_WINDOW}") == {"a.b": "at"}


def test_a_recursive_query_mixes_rows() -> None:
    sql = "WITH RECURSIVE r AS (SELECT id, at FROM a.b UNION ALL SELECT id + 1, at FROM r) SELECT * FROM r"
    assert times(f"{sql} {IN_WINDOW}") == {"a.b": None}


@pytest.mark.parametrize(
    ("condition", "refused_at"),
    [
        ("at >= CAST(:start AS date) AND at < CAST(:end AS date)", {"hour"}),
        ("date(at) >= :start AND date(at) < :end", {"hour"}),
        ("date_trunc('hour', at) >= :start AND date_trunc('hour', at) < :end", set()),
        ("date_trunc('month', at) >= :start AND date_trunc('month', at) < :end", {"hour", "day", "week"}),
        ("at >= date_trunc('week', :start) AND at < :end", {"hour", "day", "month", "year"}),
    ],
)
def test_a_comparison_may_not_be_coarser_than_the_windows(condition: str, refused_at: set[str]) -> None:
    refused = set()
    for grain in Grain:
        problems = Problems()
        query = analyze(f"SELECT at FROM a.b\nWHERE {condition}", "x.sql", 1, problems, grain)
        assert query is not None
        assert query.reads[0].time == "at"
        assert all(f"one {grain}, which is the model's grain" in each.problem for each in problems.found)
        refused |= {str(grain)} if problems else set()
    assert refused == refused_at


def output_problems(sql: str, name: str, grain: Grain = Grain.DAY) -> list[str]:
    problems = Problems()
    query = analyze(sql, "x.sql", 1, problems, grain)
    assert query is not None
    query.times.check_output(name)
    return [each.problem for each in problems.found]


@pytest.mark.parametrize(
    ("sql", "grain"),
    [
        (f"SELECT id, at AS t FROM a.b {IN_WINDOW}", "hour"),
        (f"SELECT id, date(at) AS t FROM a.b {IN_WINDOW}", "day"),
        (f"SELECT CAST(date_trunc('month', at) AS date) AS t, sum(x) AS x FROM a.b {IN_WINDOW} GROUP BY 1", "month"),
        (f"SELECT last_day(at) AS t FROM a.b {IN_WINDOW}", "month"),
        (f"SELECT date(at) AS t, count(*) AS n FROM a.b {IN_WINDOW} GROUP BY t", "day"),
        (f"SELECT id, max(at) AS t FROM a.b {IN_WINDOW} GROUP BY id, date(at)", "day"),
        (f"WITH x AS (SELECT *, date(at) AS t FROM a.b {IN_WINDOW}) SELECT t, count(*) FROM x GROUP BY t", "day"),
        (f"SELECT date(at) AS day, date_trunc('month', day) AS t FROM a.b {IN_WINDOW}", "month"),
        (f"SELECT *, 1 AS one FROM (SELECT at AS t FROM a.b {IN_WINDOW})", "day"),
        (f"SELECT at AS t FROM a.b {IN_WINDOW} UNION ALL SELECT at FROM a.c {IN_WINDOW}", "day"),
        (f"SELECT at AS t FROM a.b {IN_WINDOW} EXCEPT SELECT e FROM a.c", "day"),
        (
            (
                "WITH x AS (SELECT id, at FROM a.b WHERE at >= :start AND at < :end),"
                " y AS (SELECT id, e FROM a.c WHERE e >= :start AND e < :end)"
                " SELECT date(coalesce(x.at, y.e)) AS t, count(*) AS n FROM x FULL JOIN y ON x.id = y.id"
                " GROUP BY date(coalesce(x.at, y.e))"
            ),
            "day",
        ),
        # a bare name beside two tables, one of which was compared
        ("SELECT t FROM a.b JOIN a.c USING (id) WHERE b.t >= :start AND b.t < :end", "day"),
        (f"SELECT id, at AS t, rank() OVER (PARTITION BY date(at) ORDER BY x) AS r FROM a.b {IN_WINDOW}", "day"),
        (f"((SELECT at AS t FROM a.b {IN_WINDOW}))", "day"),
        (f"(SELECT at AS t FROM a.b {IN_WINDOW}) UNION ALL (SELECT at FROM a.c {IN_WINDOW})", "day"),
        # mixed before, and so the same for every window
        (f"WITH x AS (SELECT at, lag(y) OVER (ORDER BY at) FROM a.b) SELECT at AS t FROM x {IN_WINDOW}", "day"),
        # nothing was compared, which is a problem of its own
        ("SELECT date_add(at, 1) AS t FROM a.b", "day"),
    ],
)
def test_the_time_column_may_be_any_copy_of_the_time_read_by(sql: str, grain: str) -> None:
    assert output_problems(sql, "t", Grain(grain)) == []


@pytest.mark.parametrize(
    ("sql", "grain", "what"),
    [
        (f"SELECT date_add(CAST(at AS date), x) AS t FROM a.b {IN_WINDOW}", "day", "the time_column `t` does not say"),
        (f"SELECT coalesce(at, booked) AS t FROM a.b {IN_WINDOW}", "day", "the time_column `t` does not say"),
        (f"SELECT at FROM a.b {IN_WINDOW}", "day", "the query has no column `t`, which is its time_column"),
        (f"SELECT booked AS t FROM a.b {IN_WINDOW}", "day", "does not say in which day the row of a.b lies"),
        (f"SELECT date(at) AS t FROM a.b {IN_WINDOW}", "hour", "does not say in which hour"),
        (f"SELECT date_trunc('month', at) AS t FROM a.b {IN_WINDOW}", "day", "that was chosen by `at`"),
        (f"WITH x AS (SELECT *, at + INTERVAL 1 DAY AS t FROM a.b {IN_WINDOW}) SELECT t FROM x", "day", "does not say"),
        (f"SELECT at AS t FROM a.b {IN_WINDOW} UNION ALL SELECT e FROM a.c {IN_WINDOW}", "day", "does not say"),
        ("SELECT c.t FROM a.b JOIN a.c USING (id) WHERE b.t >= :start AND b.t < :end", "day", "does not say"),
        ("SELECT day AS t FROM a.b JOIN a.c USING (id) WHERE b.t >= :start AND b.t < :end", "day", "does not say"),
        (f"SELECT id, max(at) AS t FROM a.b {IN_WINDOW} GROUP BY id", "day", "`GROUP BY id` looks at rows of several"),
        (f"SELECT at AS t, lag(x) OVER (ORDER BY at) AS y FROM a.b {IN_WINDOW}", "day", "looks at rows of several"),
        (f"SELECT at AS t FROM a.b {IN_WINDOW} ORDER BY x LIMIT 3", "day", "looks at rows of several windows"),
        (
            f"WITH x AS (SELECT at, lag(y) OVER (ORDER BY at) FROM a.b {IN_WINDOW}) SELECT at t FROM x {IN_WINDOW}",
            "day",
            "looks at rows of several windows",
        ),
        (f"(SELECT at AS t FROM a.b {IN_WINDOW}) LIMIT 3", "day", "`LIMIT 3` looks at rows of several windows"),
    ],
)
def test_a_time_column_of_other_windows_is_refused(sql: str, grain: str, what: str) -> None:
    found = output_problems(sql, "t", Grain(grain))
    assert len(found) == 1
    assert what in found[0]


def test_a_column_of_a_view_is_a_copy_only_of_what_it_surely_is() -> None:
    assert copied_from("SELECT id, date(at) AS d FROM a.b", "d") == {TableName("a", "b"): "at"}
    assert copied_from("SELECT id, d FROM a.b JOIN a.c USING (id)", "d") == {}
    assert copied_from("SELECT id, date_add(d, 1) AS d FROM a.b", "d") == {}
    assert copied_from("SELECT DISTINCT id, d FROM a.b", "d") == {}

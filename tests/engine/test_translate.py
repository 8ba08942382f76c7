"""Every kind of failure that a user meets, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mere import Lake, Session
from mere.engine.translate import explain, is_from_spark, keep_text
from mere.errors import SparkFailed, SparkLost

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Open = Callable[..., Session]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, warm_jvm: None) -> Iterator[Lake]:
    from mere import session

    with Lake.create(tmp_path_factory.mktemp("translate") / "lake") as lake:
        with session(lake, "main") as opened:
            opened.spark.sql("CREATE NAMESPACE a")
            opened.spark.sql("CREATE TABLE a.t AS SELECT id, CAST(id AS STRING) AS name FROM range(3)")
        lake.tag("v1")
        yield lake


@pytest.fixture(scope="module")
def classic(lake: Lake) -> Iterator[SparkSession]:
    """In a JVM of this process, whose classes a test can reach."""
    from mere import session

    with session(lake, "main") as opened:
        yield opened.spark


@pytest.fixture(scope="module", params=["classic", "connect"])
def spark(lake: Lake, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """What Spark says must not depend on how it is reached."""
    from mere import session
    from tests.engine.conftest import connected

    def opened() -> Session:
        if request.param == "classic":
            return session(lake, "main")
        return connected(request.getfixturevalue("warm_lake"), request.getfixturevalue("warm_engine"), lake)

    with opened() as session_:
        session_.attach("v1")
        yield session_.spark


def explained(spark: SparkSession, query: str) -> SparkFailed:
    with pytest.raises(Exception) as caught:  # whichever class Spark chooses; the words count
        spark.sql(query).collect()
    assert is_from_spark(caught.value)
    failure = explain(caught.value)
    for noise in ("\n", "\tat ", "SQLSTATE", "JVM stacktrace", "== SQL", "org.apache"):
        assert noise not in failure.message
    return failure


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT nme FROM a.t",
            "with name `nme` cannot be resolved. Did you mean one of the following? [`name`, `id`]",
        ),
        ("SELECT\n  nme FROM a.t", "(line 2, column 3)"),
        ("SELECT * FROM a.nothing", "The table or view `a`.`nothing` cannot be found."),
        ("SELEC 1", "Syntax error at or near 'SELEC'. (line 1, column 1)"),
        ("SELECT CAST(name || 'x' AS INT) FROM a.t", '\'0x\' of the type "STRING" cannot be cast to "INT"'),
        ("SELECT CAST(name || 'x' AS INT) FROM a.t", "(line 1, column 8)"),
        ("SELECT raise_error('the reason') FROM a.t", "the reason"),
        ("INSERT INTO a.t VALUES (1, 2, 3)", "Cannot write to `main`.`a`.`t`, the reason is too many data columns:"),
        ("CREATE TABLE a.t (id INT)", "Cannot create table or view `a`.`t` because it already exists."),
        ("SET CATALOG nowhere", "This session has no catalog `nowhere`."),
    ],
)
def test_a_failed_query_is_one_line(spark: SparkSession, query: str, message: str) -> None:
    assert message in explained(spark, query).message


def test_advice_to_switch_checks_off_is_not_passed_on(spark: SparkSession) -> None:
    assert explained(spark, "SELECT id / 0 FROM a.t").message == (
        "Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL instead. (line 1, column 8)"
    )


def test_a_guard_of_the_lake_speaks_for_itself(spark: SparkSession) -> None:
    assert "mere drop" in explained(spark, "DROP TABLE a.t").message
    assert explained(spark, "INSERT INTO v1.a.t VALUES (1, 'x')").message == (
        "Tags and commits are read-only; write to a branch."
    )


@pytest.mark.parametrize("procedure", ["expire_snapshots", "remove_orphan_files"])
def test_procedures_that_would_delete_files_are_explained(spark: SparkSession, procedure: str) -> None:
    failure = explained(spark, f"CALL main.system.{procedure}(table => 'a.t')")
    assert "may belong to several refs" in failure.message
    assert "mere gc" in str(failure.remedy)


def test_a_failing_python_function_shows_pythons_error_and_line(spark: SparkSession) -> None:
    from pyspark.sql.functions import udf

    broken = udf(lambda number: 1 // number, "int")
    with pytest.raises(Exception) as caught:
        spark.sql("SELECT CAST(0 AS INT) AS zero").select(broken("zero")).collect()
    message = explain(caught.value).message
    assert message.startswith("A Python function failed: ZeroDivisionError: integer division or modulo by zero")
    assert Path(__file__).name in message


def test_a_failing_expression_names_the_line_of_python(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    # pyspark asks once a process whether it shall, and in a thread without a session, as an earlier test may have had.
    monkeypatch.setattr("pyspark.errors.utils._enable_debugging_cache", None)
    from pyspark.sql.functions import col

    with pytest.raises(Exception) as caught:
        spark.table("a.t").select(col("id") / 0).collect()
    assert Path(__file__).name in explain(caught.value).message


def test_classes_that_were_left_out_are_explained(classic: SparkSession) -> None:
    with pytest.raises(TypeError) as caught:
        classic._jvm.org.apache.spark.ml.feature.VectorAssembler("x")  # type: ignore[union-attr]
    assert is_from_spark(caught.value)
    assert "ml: true" in str(explain(caught.value).remedy)


def test_an_unknown_method_is_not_taken_for_a_dead_jvm(classic: SparkSession) -> None:
    with pytest.raises(Exception) as caught:
        classic._jsparkSession.noSuchThing()
    assert "noSuchThing" in explain(caught.value).message


def test_java_errors_without_a_spark_message_keep_their_class(classic: SparkSession) -> None:
    with pytest.raises(Exception) as caught:
        classic._jvm.java.util.ArrayList().get(5)  # type: ignore[union-attr]
    assert explain(caught.value).message == "IndexOutOfBoundsException: Index 5 out of bounds for length 0"


def test_what_spark_does_not_explain_is_one_line_and_the_place_of_the_log(spark: SparkSession) -> None:
    with pytest.raises(Exception) as caught:
        spark.sql("SELECT reflect('java.lang.Integer', 'parseInt', 'x')").collect()
    failure = explain(caught.value)
    assert "\n" not in failure.message
    log = str(failure.remedy).removeprefix("All that Spark said: ")
    assert Path(log).is_file()
    assert explained(spark, "SELECT nothing FROM a.t").remedy is None


RPC = """<_MultiThreadedRendezvous of RPC that terminated with:
\tstatus = StatusCode.UNKNOWN
\tdetails = "Application error processing RPC"
\tdebug_error_string = "UNKNOWN:Error received from peer  {grpc_status:2}"
>"""


@pytest.mark.parametrize(
    ("text", "said", "is_lost"),
    [
        (RPC, "Spark's server failed without giving a reason.", False),
        ("Channel closed!", "The server that ran Spark no longer answers: it was stopped or killed.", True),
        (
            "(java.lang.IllegalStateException) Cannot call methods on a stopped SparkContext.\nThis stopped …",
            "Spark was stopped, by an error of its own or from outside.",
            True,
        ),
        ("Job 3 cancelled because SparkContext was shut down", "Spark was stopped, by an error of its own", True),
        ("(x.y.OddException) " + "very " * 200, "OddException: very very", False),
    ],
)
def test_the_words_of_a_server_that_fails_are_not_shown(text: str, said: str, is_lost: bool) -> None:
    from pyspark.errors.exceptions.connect import SparkConnectGrpcException

    failure = explain(SparkConnectGrpcException(text))
    assert failure.message.startswith(said)
    assert len(failure.message) < 500
    assert isinstance(failure, SparkLost) == is_lost
    assert "Open a new session" not in str(failure)
    assert failure.remedy


def test_a_closed_channel_is_a_lost_server() -> None:
    error = ValueError("Cannot invoke RPC on closed channel!")
    assert is_from_spark(error)
    assert isinstance(explain(error), SparkLost)
    assert not is_from_spark(ValueError("another"))


def test_what_a_catalog_refuses_is_said_as_it_is_written_with_whose_token_it_was() -> None:
    from pyspark.errors import PySparkException

    text = "org.apache.iceberg.exceptions.ForbiddenException: Forbidden: bob may not read run_3f. He reads main"
    failure = explain(PySparkException(text))
    assert failure.message == "bob may not read run_3f. He reads main."
    assert "`token` under `spark:` in mere.yaml" in str(failure.remedy)
    text = "org.apache.iceberg.exceptions.ForbiddenException: Forbidden: main~1 is a commit, which is read-only"
    assert explain(PySparkException(text)).remedy is None


def test_running_out_of_memory_says_what_to_change() -> None:
    from pyspark.errors import PySparkException

    failure = explain(PySparkException(message="java.lang.OutOfMemoryError: Java heap space"))
    assert "ran out of memory" in failure.message
    assert "memory:" in str(failure.remedy)


def test_a_full_disk_says_which_it_may_be() -> None:
    from pyspark.errors import PySparkException

    failed = explain(PySparkException(message="Job aborted.\njava.io.IOException: No space left on device"))
    assert failed.message.startswith("There is no room on a disk to which Spark writes (No space left on device)")
    assert "mere doctor" in str(failed.remedy)


def test_a_refused_connection_counts_only_if_it_was_sparks() -> None:
    assert not is_from_spark(ConnectionRefusedError())
    assert not is_from_spark(TypeError("'int' object is not callable"))


def test_a_kept_text_needs_no_jvm(classic: SparkSession) -> None:
    with pytest.raises(Exception) as caught:
        classic._jvm.java.util.ArrayList().get(5)  # type: ignore[union-attr]
    kind = type(caught.value)
    keep_text(caught.value)
    assert isinstance(caught.value, kind)
    assert "IndexOutOfBounds" in str(caught.value)

"""mere engine start --shared: what is refused, and what to type instead. That it serves, docs/spark.md shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_cli import Shell


@pytest.fixture
def mere(tmp_path: Path) -> Shell:
    Shell(tmp_path)("init", "shop")
    return Shell(tmp_path / "shop")


@pytest.mark.parametrize(
    ("options", "said", "remedy"),
    [
        (["--port", "1"], "--port has no effect", "mere engine start --shared"),
        (["--shared", "--idle", "5m"], "runs until it is stopped", "Leave out --idle."),
        (["--shared", "--host", "0.0.0.0"], "must use TLS and tokens", "Give --tls-cert and --tls-key."),
        (["--shared", "--tls-cert", "server.crt"], "both a certificate and its key", "--tls-key"),
        (["--shared", "--tokens"], "Nobody has a token", "mere token create NAME"),
    ],
)
def test_what_cannot_be_shared_is_said_before_spark_starts(
    mere: Shell, options: list[str], said: str, remedy: str
) -> None:
    done = mere("engine", "start", *options, exit_code=2)
    assert said in done.output
    assert remedy in done.output


def test_a_profile_with_a_server_of_somebody_else_has_nothing_to_share(mere: Shell) -> None:
    file = mere.folder / "mere.yaml"
    file.write_text("name: shop\nprofiles:\n  local:\n    spark: {remote: 'sc://localhost:1'}\n")
    assert "mere --profile NAME engine start --shared" in mere("engine", "start", "--shared", exit_code=2).output


def test_none_is_running(mere: Shell) -> None:
    assert mere.json("engine", "status", "--shared") == {"running": False}
    assert mere.json("engine", "stop", "--shared") == {"stopped": False, "pid": None}
    assert "Start one: mere engine start" in mere("engine", "url", exit_code=1).output

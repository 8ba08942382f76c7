"""Tokens are shown once, kept as hashes, and end when they expire or are revoked."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mere.cli import main
from mere.errors import ConfigError, UsageError
from mere.lake.lake import Lake
from mere.serve.access.tokens import Tokens, masked
from mere.serve.protocol.port import PgError
from tests.lake import orders

NOW = datetime(2026, 11, 19, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(Tokens.beside(tmp_path / "users.json"))


def test_a_token_lets_in_who_shows_it(tokens: Tokens) -> None:
    token, text = tokens.create("ann", "analyst", DAY)
    assert tokens.of(text) == token
    assert (token.user, token.role, token.expires - token.created) == ("ann", "analyst", DAY)
    assert Tokens(tokens.path).of(text) == token  # another process


def test_nothing_else_lets_in(tokens: Tokens) -> None:
    token, text = tokens.create("ann", None, DAY)
    _, other = tokens.create("bob", None, DAY)
    secret = text.rpartition(f"{token.id}_")[2]
    last = "A" if text[-1] != "A" else "B"
    wrong = ["", "mere", secret, token.hash, f"mere_{token.id}_", text[:-1], text[:-1] + last, text + "x", f" {text}"]
    wrong += [text.upper(), f"mere_00000000_{secret}", f"mere_{token.id}_{other.rpartition('_')[2]}", "mere__", "\x00"]
    wrong += [f"mere_{token.id}_{token.hash[:43]}", "ä" * 50, f"{text}\n"]
    assert [each for each in wrong if tokens.of(each) is not None] == []


def test_the_file_is_its_owners_alone_and_has_no_token(tokens: Tokens) -> None:
    token, text = tokens.create("ann", None, DAY)
    assert tokens.path.name == "users.tokens"
    assert tokens.path.stat().st_mode & 0o777 == 0o600
    assert text.rpartition(f"{token.id}_")[2] not in tokens.path.read_text()
    tokens.path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        Tokens(tokens.path).of(text)
    with pytest.raises(PgError, match="refused at the moment"):
        Tokens(tokens.path).admit()


def test_a_token_ends_when_its_time_is_over(tmp_path: Path) -> None:
    now = NOW
    tokens = Tokens(tmp_path / "users.tokens", lambda: now)
    token, text = tokens.create("ann", None, DAY)
    now = NOW + DAY - timedelta(microseconds=1)
    assert tokens.of(text) == token
    now = NOW + DAY
    assert tokens.of(text) is None
    assert tokens.is_expired(token)


def test_a_token_that_is_revoked_ends_in_every_process(tokens: Tokens) -> None:
    token, text = tokens.create("ann", None, DAY)
    other = Tokens(tokens.path)
    assert other.of(text) == token
    with pytest.raises(UsageError, match="There is no token nix"):
        tokens.revoke(token.id, "nix")
    assert other.of(text) == token  # all of them, or none
    assert tokens.revoke(token.id) == [token]
    assert other.of(text) is None


def test_a_user_who_leaves_leaves_no_token_behind(tokens: Tokens) -> None:
    assert tokens.revoke_of("ann") == []
    mine = [tokens.create("ann", None, DAY)[0] for _ in range(2)]
    other, text = tokens.create("bob", None, DAY)
    assert {each.id for each in tokens.revoke_of("ann")} == {each.id for each in mine}
    assert tokens.of(text) == other


def test_tokens_that_are_created_at_once_are_all_there(tokens: Tokens) -> None:
    threads = [threading.Thread(target=Tokens(tokens.path).create, args=("ann", None, DAY)) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(tokens.all()) == 8


@pytest.mark.parametrize("lifetime", [timedelta(0), -DAY, timedelta.max])
def test_a_time_that_is_none_is_refused(tokens: Tokens, lifetime: timedelta) -> None:
    with pytest.raises(UsageError, match="--expires 90d"):
        tokens.create("ann", None, lifetime)
    assert not tokens.path.exists()


@pytest.mark.parametrize("name", ["", "-ann", "a\nb", "x" * 64])
def test_a_name_that_cannot_be_a_user_s_is_refused(tokens: Tokens, name: str) -> None:
    with pytest.raises(UsageError):
        tokens.create(name, None, DAY)


GOOD = {"user": "ann", "role": None, "hash": "0" * 64, "created": NOW.isoformat(), "expires": NOW.isoformat()}
WRONG: list[dict[str, object]] = [
    {"expires": None}, {"expires": "soon"}, {"expires": "2026-11-19"}, {"hash": ""}, {"hash": "0" * 63 + "x"},
    {"role": 1}, {"user": None}, {"more": 1},
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_a_damaged_file_lets_nobody_in(tokens: Tokens, wrong: dict[str, object]) -> None:
    _, text = tokens.create("ann", None, DAY)
    assert tokens.of(text) is not None
    tokens.path.write_text(json.dumps({**json.loads(tokens.path.read_text()), "3fa2c1d0": {**GOOD, **wrong}}))
    with pytest.raises(ConfigError, match="mere token create"):
        tokens.of(text)
    with pytest.raises(PgError):
        tokens.admit()


def test_a_token_in_a_text_is_masked(tokens: Tokens) -> None:
    token, text = tokens.create("ann", None, DAY)
    assert masked(f"/x?token={text}&y={text}") == f"/x?token=mere_{token.id}_…&y=mere_{token.id}_…"


# The commands


def mere(*arguments: str) -> Any:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with Lake.create(tmp_path / "lake") as lake:
        orders.write(lake, "gold.orders", orders.ORDERS)
    (tmp_path / "mere.yaml").write_text("name: shop\nprofiles: {local: {lake: lake}}\n")
    (tmp_path / "roles.yaml").write_text('roles: {analyst: {tables: "*"}}\nusers: {ann: analyst}\n')
    (tmp_path / "secret").write_text("a secret")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_token_is_printed_once_and_alone(project: Path) -> None:
    done = mere("token", "create", "ann", "--role", "analyst", "--roles", "roles.yaml", "--expires", "30d")
    text = done.stdout.strip()
    tokens = Tokens(project / ".mere" / "users.tokens")
    token = tokens.of(text)
    assert token is not None
    assert (token.user, token.role, token.expires - token.created) == ("ann", "analyst", 30 * DAY)
    assert "is not shown again" in done.stderr
    listed = mere("token", "list")
    assert [word for word in (token.id, "ann", "analyst") if word not in listed.stdout] == []
    assert text.rpartition("_")[2] not in listed.stdout
    (told,) = json.loads(mere("token", "list", "--json").stdout)
    assert (told["id"], told["user"], told["role"], told["expired"]) == (token.id, "ann", "analyst", False)
    assert "hash" not in told
    made = json.loads(mere("token", "create", "etl", "--json").stdout)
    assert tokens.of(made["token"]) is not None
    assert made["role"] is None


def test_a_role_that_is_not_in_the_file_is_refused(project: Path) -> None:
    wrong = mere("token", "create", "ann", "--role", "analist", "--roles", "roles.yaml")
    assert (wrong.exit_code, "There is no role analist in roles.yaml." in wrong.stderr) == (2, True)
    assert "Did you mean analyst?" in wrong.stderr
    nobody = mere("token", "create", "bob", "--roles", "roles.yaml")
    assert (nobody.exit_code, "bob has no role in roles.yaml." in nobody.stderr) == (2, True)
    assert mere("token", "list").stdout == "no tokens; create one: mere token create NAME\n"
    assert mere("token", "create", "ann", "--expires", "soon").exit_code == 2


def test_tokens_are_revoked_by_their_ids_and_with_their_user(project: Path) -> None:
    first, second = (json.loads(mere("token", "create", "ann", "--json").stdout)["id"] for _ in range(2))
    assert mere("token", "revoke", first).stdout == f"{first} of ann was revoked\n"
    assert mere("token", "revoke", first).exit_code == 2
    assert mere("user", "add", "ann", "--password-file", "secret").exit_code == 0
    assert mere("user", "remove", "ann").stdout == "ann was removed, with 1 token\n"
    assert second not in mere("token", "list").stdout


def test_serve_needs_a_user_or_a_token_and_notes_tokens_that_let_nobody_in(project: Path) -> None:
    assert "No user can log in" in mere("serve", "--check").stderr
    created = [["ann"], ["ann", "--role", "old"], ["eve"]]
    ids = [json.loads(mere("token", "create", *each, "--json").stdout)["id"] for each in created]
    notes = json.loads(mere("serve", "--check", "--roles", "roles.yaml", "--json").stdout)["notes"]
    assert [note for note in notes if "token" in note] == [
        f"the token {ids[1]} of ann lets nobody in: there is no role old",
        f"the token {ids[2]} of eve lets nobody in: eve has no role",
    ]
    notes = json.loads(mere("serve", "--check", "--json").stdout)["notes"]
    assert notes == [f"the token {ids[1]} of ann lets nobody in: there is no role old"]

"""Texts from elsewhere as they may be printed."""

from __future__ import annotations

import logging

import pytest

from mere.cli import logs, output
from mere.cli.output import print_table
from mere.text.notebook import Column
from mere.text.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Überweisung 5 €, 東京 \u00a0👩\u200d👧", "Überweisung 5 €, 東京 \u00a0👩\u200d👧"),
        ("\x1b[2Jann", r"\x1b[2Jann"),
        ("a\r\nb\tc\x7f\x9b", r"a\r\nb\tc\x7f\x9b"),
        ("\u202eevil\u2066\u2028", r"\u202eevil\u2066\u2028"),
        ("\ud800", r"\ud800"),
    ],
)
def test_control_characters_are_spelled_out(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_lines_may_be_kept() -> None:
    assert printable("a\nb\x1b\r", lines=True) == "a\nb\\x1b\\r"


def test_a_line_of_the_log_cannot_be_forged(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = list(root.handlers)
    root.handlers.clear()
    try:
        logs.to_stderr()
        logging.getLogger("elsewhere").warning("no such user: %s", 'ann\n{"event": "login"}\x1b[2J')
        logging.getLogger("sqlglot").warning('contains unsupported syntax: \n{"event": "login"}')
        logging.getLogger("mere.serve.access.watched").error("nobody is let in")
        try:
            raise ValueError("odd\nerror: forged")
        except ValueError:
            logging.getLogger("elsewhere").exception("it failed")
    finally:
        root.handlers[:] = before
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["warning: elsewhere: no such user: ann", r'| {"event": "login"}\x1b[2J']
    assert lines[2] == "error: nobody is let in"
    assert lines[3] == "error: elsewhere: it failed"
    assert all(line.startswith("| ") for line in lines[4:])
    assert "unsupported" not in "".join(lines)


def test_what_somebody_wrote_into_the_lake_does_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([Column("author")], [["\x1b]0;mine\x07\nann"]])
    output.say("by \x1b[31mann\nat noon")
    assert capsys.readouterr().out == "author\n\\x1b]0;mine\\x07\\nann\nby \\x1b[31mann\nat noon\n"

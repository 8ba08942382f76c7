"""What the libraries that mere uses may log to standard error."""

from __future__ import annotations

import logging
import sys

from mere.text.printable import printable

# It repeats the statements that it does not know, whoever sent them.
_SILENT = ("sqlglot",)


def to_stderr() -> None:
    """Warnings and worse. Lines of a message after its first are marked: no message can pass for two."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    silence()


def silence() -> None:
    for name in _SILENT:
        logging.getLogger(name).disabled = True


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """As errors are shown. Where in mere it was noticed, a reader need not know; another library is named."""
        whose = "" if record.name.partition(".")[0] == "mere" else f"{record.name}: "
        said = f"{record.levelname.lower()}: {whose}{super().format(record)}"
        return printable(said, lines=True).replace("\n", "\n| ")

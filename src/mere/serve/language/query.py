"""A client's query, as its text and as its syntax tree."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import ref

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from mere.serve.language import guard
from mere.serve.parse import lexer, syntax


class ParsedQuery:
    """Implements `statement.Parsed`. If nobody else has the tree when it is wanted after `forget`, it is read again:
    so what clients have prepared takes no more memory than its text."""

    def __init__(self, tokens: Sequence[Token], text: str) -> None:
        self.start = tokens[0].start
        self.text = text[self.start : tokens[-1].end + 1]
        tree = _tree(tokens, text)
        self._held: exp.Expr | None = tree  # for its sake alone
        self._seen = ref(tree)

    @property
    def tree(self) -> exp.Expr:
        found = self._seen()
        if found is None:
            found = _tree(lexer.tokens(self.text), self.text)
            for each in found.walk():
                if "start" in each.meta:  # where it stands in the text that was sent
                    each.meta.update(start=each.meta["start"] + self.start, end=each.meta["end"] + self.start)
            self._seen = ref(found)
        return found

    def forget(self) -> None:
        self._held = None


def _tree(tokens: Sequence[Token], text: str) -> exp.Expr:
    found = syntax.query(tokens, text)
    guard.check(found)
    return found

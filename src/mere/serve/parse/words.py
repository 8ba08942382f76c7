"""Words: of one statement, read from left to right, and sets of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot.tokenizer_core import Token

from mere.serve.parse import syntax


def words(text: str) -> frozenset[str]:
    """A long list of names, written as a text."""
    return frozenset(text.split())


class Words:
    def __init__(self, tokens: Sequence[Token], text: str) -> None:
        self.tokens = tokens
        self.text = text
        self._at = 0

    @property
    def span(self) -> tuple[str, int]:
        """The text of all of them, and where it begins."""
        start, end = self.tokens[0].start, self.tokens[-1].end + 1
        return self.text[start:end], start

    def peek(self, ahead: int = 0) -> Token | None:
        at = self._at + ahead
        return self.tokens[at] if at < len(self.tokens) else None

    def take(self) -> Token:
        token = self.peek()
        if token is None:
            raise syntax.unexpected(None)
        self._at += 1
        return token

    def skip(self, *words: str) -> bool:
        """Pass the next word if it is one of these."""
        if syntax.is_word(self.peek(), *words):
            self._at += 1
            return True
        return False

    def expect(self, word: str) -> None:
        if not self.skip(word):
            raise syntax.unexpected(self.peek())

    def name(self) -> str:
        if not syntax.is_name(self.peek()):
            raise syntax.unexpected(self.peek())
        return syntax.name(self.take())

    def rest(self) -> Sequence[Token]:
        found, self._at = self.tokens[self._at :], len(self.tokens)
        return found

    def bracket(self) -> Sequence[Token]:
        """What stands in the bracket that was just opened; the closing one is passed, too."""
        depth, start = 1, self._at
        while depth:
            text = self.take().text if not syntax.is_string(self.peek()) else self.take() and ""
            depth += (text == "(") - (text == ")")
        return self.tokens[start : self._at - 1]

    def items(self) -> Iterator[str]:
        """The texts between the commas of the bracket that was just opened."""
        depth = 0
        found: list[Token] = []
        for token in self.bracket():
            depth += (token.text == "(") - (token.text == ")")
            if token.text == "," and depth == 0:
                yield self._between(found)
                found = []
            else:
                found.append(token)
        if found:
            yield self._between(found)

    def _between(self, tokens: Sequence[Token]) -> str:
        return self.text[tokens[0].start : tokens[-1].end + 1] if tokens else ""

    def end(self) -> None:
        if (token := self.peek()) is not None:
            raise syntax.unexpected(token)

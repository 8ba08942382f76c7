"""Cuts a text into tokens as Postgres's own lexer does, for sqlglot's parser.

sqlglot's tokenizer serves many dialects, and cuts some texts otherwise than Postgres: it takes `$1,$2` for the start of
a dollar-quoted string, `0x1F` for bytes, `==` for `=`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from typing import NoReturn

from sqlglot.dialects.postgres import Postgres
from sqlglot.tokenizer_core import Token, TokenType

from mere.serve.access import limits
from mere.serve.protocol.port import PgError

MOST_TOKENS = 200_000

_SPACE = r"[ \t\n\r\f\v]"
_START = r"A-Za-z_\x80-\U0010ffff"
_DIGITS = r"[0-9](?:_?[0-9])*+"
_PIECE = re.compile(
    rf"""
      (?P<space> (?: {_SPACE}++ | --[^\n\r]*+ )++ )
    | (?P<comment> /\* )
    | (?P<escaped> [eE]' )
    | (?P<unicode> [uU]&['"] )
    | (?P<bits> [bBxX]' )
    | (?P<string> [nN]?' )
    | (?P<identifier> " )
    | (?P<dollar> \$(?:[{_START}][{_START}0-9]*+)?\$ )
    | (?P<parameter> \$[0-9]++ )
    | (?P<word> [{_START}][{_START}0-9$]*+ )
    | (?P<based> 0(?:[xX](?:_?[0-9a-fA-F])++|[oO](?:_?[0-7])++|[bB](?:_?[01])++) )
    | (?P<number> (?: {_DIGITS}(?:\.(?!\.)(?:{_DIGITS})?)? | \.{_DIGITS} ) (?:[eE][-+]?{_DIGITS})? )
    | (?P<mark> ::|:=|\.\.|[,()\[\].;:] )
    | (?P<operator> [~!@#^&|`?+\-*/%<>=]++ )
    """,
    re.VERBOSE,
)
_PLAIN = re.compile(r"'([^']*+(?:''[^']*+)*+)'")
_WITH_ESCAPES = re.compile(r"'([^'\\]*+(?:(?:''|\\.)[^'\\]*+)*+)'", re.DOTALL)
_NAME = re.compile(r'"([^"]*+(?:""[^"]*+)*+)"')
_NEXT_LINE = re.compile(rf"(?:[ \t\f\v]|--[^\n\r]*+)*+[\n\r](?:{_SPACE}|--[^\n\r]*+[\n\r])*+(?=')")
_UESCAPE = re.compile(rf"{_SPACE}*+uescape{_SPACE}*+'([^']|'')'", re.IGNORECASE)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_JUNK = re.compile(rf"[{_START}][{_START}0-9$]*+")
_ESCAPE = re.compile(r"''|(?:\\(?:[0-7]{1,3}|x[0-9a-fA-F]{1,2}))+|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\.", re.DOTALL)
_BYTE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2}))")
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_BASES = {"x": 16, "o": 8, "b": 2}

_KEYWORDS = Postgres.Tokenizer.KEYWORDS
_WORDS: Mapping[str, TokenType] = {
    word: type_
    for word, type_ in _KEYWORDS.items()
    # oid, regclass and their like are types as others are: `$1::oid[]`.
    if word.replace("_", "a").isalnum() and type_ is not TokenType.OBJECT_IDENTIFIER
}
_PAIRS: dict[str, dict[str, TokenType]] = {}  # GROUP BY, DOUBLE PRECISION: one token to sqlglot
for _first, _, _second in [word.partition(" ") for word in _KEYWORDS if " " in word]:
    _PAIRS.setdefault(_first, {})[_second] = _KEYWORDS[f"{_first} {_second}"]
# fmt: off
_SIGNS = (
    "&&", "&<", "&>", "->", "->>", "#>", "#>>", "#-", "<=", ">=", "<>", "!=", "=>", "||", "|/", "||/", "~", "~*", "~~",
    "~~*", "@>", "<@", "@@", "@?", "?&", "?|", "^@", "-|-", "<->",
)
# fmt: on
_OPERATORS: Mapping[str, TokenType] = {
    **{sign: type_ for sign, type_ in Postgres.Tokenizer.SINGLE_TOKENS.items() if sign in "~@#^&|?+-*/%<>="},
    **{sign: _KEYWORDS[sign] for sign in _SIGNS},
}
# sqlglot's parser takes these as two tokens.
_OF_TWO: Mapping[str, TokenType] = {
    "<<": TokenType.LT,
    ">>": TokenType.GT,
    **dict.fromkeys(("!~", "!~*", "!~~", "!~~*"), TokenType.NOT),
}
_MARKS: Mapping[str, TokenType] = {
    **{sign: Postgres.Tokenizer.SINGLE_TOKENS[sign] for sign in ",()[].;:"},
    "::": TokenType.DCOLON,
    ":=": TokenType.COLON_EQ,
}


def tokens(text: str) -> list[Token]:
    return _Lexer(text).read()


class _Lexer:
    """For each kind of piece a method of its name, which adds its tokens to `found`. The piece is where it begins:
    `_at`, from which the next one is read, may be moved on."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.found: list[Token] = []
        self._at = 0
        self._lines = [each.start() for each in re.finditer("\n", text)]

    def read(self) -> list[Token]:
        match, text = _PIECE.match, self.text
        while self._at < len(text):
            limits.go_on()
            start = self._at
            piece = match(text, start)
            if piece is None:
                self._fail(f'syntax error at or near "{text[start]}"', start)
            self._at = piece.end()
            if (kind := piece.lastgroup) != "space":
                getattr(self, f"_{kind}")(start, piece[0])
            if len(self.found) > MOST_TOKENS:
                raise PgError("54000", "the statement is too long")
        return self.found

    def _add(self, type_: TokenType, written: str, start: int, end: int) -> None:
        line = bisect_left(self._lines, end - 1)
        column = end - (self._lines[line - 1] + 1 if line else 0)
        self.found.append(Token(type_, written, line + 1, column, start, end - 1))

    def _fail(self, message: str, at: int, code: str = "42601") -> NoReturn:
        raise PgError(code, message, position=at + 1)

    def _comment(self, start: int, _: str) -> None:
        depth = 1
        while depth:
            edge = _COMMENT_EDGE.search(self.text, self._at)
            if edge is None:
                self._fail(f'unterminated /* comment at or near "{self.text[start:]}"', start)
            depth += 1 if edge[0] == "/*" else -1
            self._at = edge.end()

    def _word(self, start: int, written: str) -> None:
        upper = written.upper() if written.isascii() else ""
        before = self.found[-1] if self.found else None
        if before and upper and before.token_type not in _QUOTED and upper in _PAIRS.get(before.text.upper(), ()):
            del self.found[-1]
            type_ = _PAIRS[before.text.upper()][upper]
            self._add(type_, f"{before.text} {written}", before.start, self._at)
        else:
            self._add(_WORDS.get(upper, TokenType.VAR), written, start, self._at)

    def _string(self, start: int, _: str) -> None:
        self._add_string(self._inside(_PLAIN, start).replace("''", "'"), start)

    def _escaped(self, start: int, _: str) -> None:
        inside = self._inside(_WITH_ESCAPES, start)
        try:
            decoded = _ESCAPE.sub(_unescaped, inside).encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._fail("invalid byte sequence or Unicode escape in a string", start, "22021")
        self._add_string(decoded, start)

    def _bits(self, start: int, written: str) -> None:
        type_ = TokenType.BIT_STRING if written[0] in "bB" else TokenType.HEX_STRING
        inside = self._inside(_PLAIN, start)
        self._add(type_, inside, start, self._at)

    def _unicode(self, start: int, written: str) -> None:
        """U&'…' and U&"…", with what UESCAPE says."""
        quote = written[-1]
        inside = self._inside(_PLAIN if quote == "'" else _NAME, start).replace(quote * 2, quote)
        mark = "\\"
        if escape := _UESCAPE.match(self.text, self._at):
            self._at, mark = escape.end(), escape[1]
            if mark in "+'\"" or mark.isspace() or mark in "0123456789abcdefABCDEF":
                self._fail("invalid Unicode escape character", escape.start(1) - 1)
        sign = re.escape(mark)
        code = rf"{sign}(?:({sign})|\+([0-9a-fA-F]{{6}})|([0-9a-fA-F]{{4}})|)"
        try:
            decoded = re.sub(code, _by_code_point, inside).encode("utf-16", "surrogatepass").decode("utf-16")
        except ValueError:
            self._fail("invalid Unicode escape", start)
        if quote == "'":
            self._add_string(decoded, start)
        else:
            self._add_name(decoded, start)

    def _identifier(self, start: int, _: str) -> None:
        self._add_name(self._inside(_NAME, start).replace('""', '"'), start)

    def _inside(self, quoted: re.Pattern[str], start: int) -> str:
        """What stands between the quotes that were just opened; a string goes on after a line break."""
        found = quoted.match(self.text, self._at - 1)
        if found is None:
            what = "quoted identifier" if quoted is _NAME else "quoted string"
            self._fail(f'unterminated {what} at or near "{self.text[start:]}"', start)
        parts, self._at = [found[1]], found.end()
        while quoted is not _NAME and (gap := _NEXT_LINE.match(self.text, self._at)):
            found = quoted.match(self.text, gap.end())
            if found is None:
                self._fail(f'unterminated quoted string at or near "{self.text[gap.end() :]}"', gap.end())
            parts.append(found[1])
            self._at = found.end()
        return "".join(parts)

    def _add_string(self, decoded: str, start: int) -> None:
        if "\0" in decoded:
            self._fail('invalid byte sequence for encoding "UTF8": 0x00', start, "22021")
        if self.found and self.found[-1].token_type is TokenType.STRING:  # sqlglot would put the two together
            self._fail(f'syntax error at or near "{self.text[start : self._at]}"', start)
        self._add(TokenType.STRING, decoded, start, self._at)

    def _add_name(self, name: str, start: int) -> None:
        if not name:
            self._fail(f'zero-length delimited identifier at or near "{self.text[start : self._at]}"', start)
        self._add(TokenType.IDENTIFIER, name, start, self._at)

    def _dollar(self, start: int, tag: str) -> None:
        end = self.text.find(tag, self._at)
        if end < 0:
            self._fail(f'unterminated dollar-quoted string at or near "{self.text[start:]}"', start)
        inside, self._at = self.text[self._at : end], end + len(tag)
        self._add_string(inside, start)

    def _parameter(self, start: int, written: str) -> None:
        self._refuse_junk("parameter", start)
        self._add(TokenType.PARAMETER, "$", start, start + 1)
        self._add(TokenType.NUMBER, written[1:], start + 1, self._at)

    def _based(self, start: int, written: str) -> None:
        self._refuse_junk("numeric literal", start)
        digits = written[2:].replace("_", "")
        self._add(TokenType.NUMBER, str(int(digits, _BASES[written[1].lower()])), start, self._at)

    def _number(self, start: int, written: str) -> None:
        self._refuse_junk("numeric literal", start)
        plain = written.replace("_", "")
        self._add(TokenType.NUMBER, f"0{plain}" if plain[0] == "." else plain, start, self._at)

    def _refuse_junk(self, what: str, start: int) -> None:
        if junk := _JUNK.match(self.text, self._at):
            self._fail(f'trailing junk after {what} at or near "{self.text[start : junk.end()]}"', start)

    def _mark(self, start: int, written: str) -> None:
        if (type_ := _MARKS.get(written)) is None:
            self._fail(f'syntax error at or near "{written}"', start)
        self._add(type_, written, start, self._at)

    def _operator(self, start: int, written: str) -> None:
        for opening in ("/*", "--"):
            if (at := written.find(opening)) > 0:
                written = written[:at]
        if not set(written) & set("~!@#^&|`?%"):
            # `a<-1` and `2*-3`: SQL's own operators leave the sign to the number.
            written = written[0] + written[1:].rstrip("+-") if written[-1] in "+-" else written
        self._at = start + len(written)
        if written in _OF_TWO:
            self._add(_OF_TWO[written], written[0], start, start + 1)
            start, written = start + 1, written[1:]
        type_ = _OPERATORS.get(written)
        if type_ is None and not self.found:
            self._fail(f'syntax error at or near "{written}"', start)
        if type_ is None:
            self._fail(f"operator does not exist: {written}", start, "42883")
        self._add(type_, written, start, self._at)


_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)


def _unescaped(found: re.Match[str]) -> str:
    """Of a string with E before it."""
    written = found[0]
    if written == "''":
        return "'"
    kind = written[1]
    if kind in "01234567" or (kind == "x" and len(written) > 2):
        codes = [int(each[1], 8) & 255 if each[1] else int(each[2], 16) for each in _BYTE.finditer(written)]
        return bytes(codes).decode()
    if kind in "uU" and len(written) > 2:
        return _character(int(written[2:], 16))
    return _CONTROLS.get(kind, kind)


def _by_code_point(found: re.Match[str]) -> str:
    """Of a string with U& before it."""
    if found[1]:
        return found[1]
    code = found[2] or found[3]
    if not code:
        raise ValueError("an escape without a code")
    return _character(int(code, 16))


def _character(code: int) -> str:
    """Half of a pair, too: the halves are put together when the string is whole."""
    return chr(code) if code <= 0x10FFFF else "\ud800"

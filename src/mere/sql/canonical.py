"""Whether two SQL texts say the same."""

from __future__ import annotations

Word = tuple[str, str]  # what kind of literal it is, if it is one, and its text


def same_sql(old: str, new: str) -> bool:
    """Formatting, comments, and the case of keywords and unquoted names do not matter.

    Both texts are cut into words by the sqlglot of today, so that an upgrade of it changes nothing. Words, and not
    syntax trees: a tree forgets what its parser does not know, and then a real change would pass for none.
    """
    return old == new or _words(old) == _words(new) is not None


def _words(sql: str) -> list[Word] | None:
    """None if it cannot be read, which is like nothing else."""
    from sqlglot.errors import TokenError

    from mere.sql.spark.read import SparkView

    try:
        tokens = SparkView().tokenize(sql)
    except TokenError:
        return None
    words: list[Word] = []
    for token in tokens:
        kind = token.token_type.name
        if kind.endswith("STRING") or kind == "IDENTIFIER":
            words.append((kind, token.text))
        else:
            # GROUP BY is one token, but two if a comment stands between; a hint is one with all that is in it.
            words += [("", word) for word in token.text.lower().split()]
    while words and words[-1] == ("", ";"):
        words.pop()
    return words

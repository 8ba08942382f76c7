"""Fills in the variables of a feed when something is fetched; the result is stored nowhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from mere.config import S3Settings
from mere.entries import VARIABLE, expanded, url_part
from mere.errors import ConfigError
from mere.sources.source import Database, Feed, Files, Rest


def with_variables(feed: Feed, file: str, line: int) -> Feed:
    """`file` and `line`: where the source is declared, for the error that a variable is not set."""
    value = partial(_value, file=file, line=line)
    match feed:
        case Files():
            s3 = _s3(feed.s3, value) if feed.s3 else None
            return replace(feed, location=value(feed.location, "`files`"), s3=s3)
        case Rest():
            headers = {name: value(text, f"the header {name}") for name, text in feed.headers.items()}
            params = {name: value(text, f"the parameter {name}") for name, text in feed.params.items()}
            texts = {**feed.params, **feed.headers}
            variables = {name: found[2] for name, text in texts.items() if (found := VARIABLE.search(text))}
            return replace(feed, url=value(feed.url, "`url`"), headers=headers, params=params, variables=variables)
        case Database():
            return replace(feed, url=expanded(feed.url, "`url`", _error(file, line), url_part))
    return feed


def _s3(s3: S3Settings, value: Callable[[str, str], str]) -> S3Settings:
    """Keys are taken whole from the declaration or from the environment, as those of the lake are."""

    def known(name: str) -> str | None:
        text = getattr(s3, name)
        return value(text, f"`s3.{name}`") if text else None

    keys = s3 if s3.access_key else S3Settings.from_environment()
    return S3Settings(
        known("access_key") or keys.access_key,
        known("secret_key") or keys.secret_key,
        known("session_token") or (None if s3.access_key else keys.session_token),
        known("endpoint"),
        known("region") or S3Settings.region,
        s3.path_style,
    )


def _value(text: str, what: str, *, file: str, line: int) -> str:
    return expanded(text, what, _error(file, line))


def _error(file: str, line: int) -> Callable[[str, str], Exception]:
    return lambda message, remedy: ConfigError(message, remedy=remedy, file=file, line=line)

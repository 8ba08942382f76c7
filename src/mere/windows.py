"""Time in windows: whole hours, days, weeks, months or years in UTC, and sets of them as merged spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Self

from mere.text.words import counted

_SHOWN = 5  # windows that are told one by one
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class Grain(StrEnum):
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"

    def floor(self, at: datetime) -> datetime:
        """The start of the window in which an instant lies. A week starts on Monday."""
        match self:
            case Grain.HOUR:
                return at.replace(minute=0, second=0, microsecond=0)
            case Grain.WEEK:
                return _midnight(at) - timedelta(days=at.weekday())
            case Grain.MONTH:
                return _midnight(at).replace(day=1)
            case Grain.YEAR:
                return _midnight(at).replace(month=1, day=1)
        return _midnight(at)

    def next(self, start: datetime) -> datetime:
        """The start of the window after the one that starts there."""
        match self:
            case Grain.HOUR:
                return start + timedelta(hours=1)
            case Grain.WEEK:
                return start + timedelta(days=7)
            case Grain.MONTH:
                return start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
            case Grain.YEAR:
                return start.replace(year=start.year + 1)
        return start + timedelta(days=1)

    def ceil(self, at: datetime) -> datetime:
        start = self.floor(at)
        return at if at in (start, LAST) else self.next(start)

    def label(self, start: datetime) -> str:
        match self:
            case Grain.HOUR:
                return f"{start:%Y-%m-%dT%H}"
            case Grain.MONTH:
                return f"{start:%Y-%m}"
            case Grain.YEAR:
                return f"{start:%Y}"
        return f"{start:%Y-%m-%d}"


@dataclass(frozen=True, order=True)
class Span:
    """From an instant up to, but without, another."""

    start: datetime
    end: datetime

    def overlaps(self, other: Span) -> bool:
        return self.start < other.end and other.start < self.end

    def widened(self, grain: Grain) -> Span:
        """The whole windows that it touches."""
        return Span(grain.floor(self.start), grain.ceil(self.end))

    def windows(self, grain: Grain) -> Iterator[Span]:
        start = grain.floor(self.start)
        while start < self.end:
            following = grain.next(start)
            yield Span(start, following)
            start = following


@dataclass(frozen=True)
class Spans:
    """A set of instants: spans in order, none of which touches the next."""

    spans: tuple[Span, ...] = ()

    @classmethod
    def of(cls, spans: Iterable[Span]) -> Self:
        merged: list[Span] = []
        for span in sorted(spans):
            if span.start >= span.end:
                continue
            if merged and span.start <= merged[-1].end:
                merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
            else:
                merged.append(span)
        return cls(tuple(merged))

    def __iter__(self) -> Iterator[Span]:
        return iter(self.spans)

    def __bool__(self) -> bool:
        return bool(self.spans)

    def __or__(self, other: Spans) -> Spans:
        return Spans.of((*self.spans, *other.spans))

    def __and__(self, other: Spans) -> Spans:
        return self - (self - other)

    def __sub__(self, other: Spans) -> Spans:
        left: list[Span] = []
        for span in self.spans:
            start = span.start
            for hole in other.spans:
                if hole.end <= start or hole.start >= span.end:
                    continue
                left.append(Span(start, max(start, hole.start)))
                start = max(start, hole.end)
            left.append(Span(start, span.end))
        return Spans.of(left)

    def overlaps(self, span: Span) -> bool:
        return any(each.overlaps(span) for each in self.spans)

    def widened(self, grain: Grain) -> Spans:
        return Spans.of(span.widened(grain) for span in self.spans)

    def windows(self, grain: Grain) -> list[Span]:
        return [window for span in self.spans for window in span.windows(grain)]

    @property
    def hull(self) -> Span | None:
        return Span(self.spans[0].start, self.spans[-1].end) if self.spans else None

    def named(self, grain: Grain) -> str:
        """`2 days: 2024-02-11, 2024-02-12`"""
        windows = self.windows(grain)
        labels = [grain.label(window.start) for window in windows]
        if len(labels) > _SHOWN:
            labels = [f"{labels[0]} … {labels[-1]}"]
        return f"{counted(len(windows), str(grain))}: {', '.join(labels)}"

    def to_json(self) -> list[list[str]]:
        return [[stamp(span.start), stamp(span.end)] for span in self.spans]

    @classmethod
    def from_json(cls, raw: Iterable[Iterable[str]]) -> Self:
        return cls.of(Span(*map(instant, pair)) for pair in raw)


NEVER = Spans()


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def stamp(at: datetime) -> str:
    """An instant as short as it can be written: a date, if it is midnight."""
    return f"{at:%Y-%m-%d}" if at == _midnight(at) else at.replace(tzinfo=None).isoformat()


def in_words(length: timedelta) -> str:
    """`30 days`, `1 hour`: a length of whole hours."""
    count, unit = (length.days, "day") if not length.seconds else (length // timedelta(hours=1), "hour")
    return counted(count, unit)


def instant(value: str | date) -> datetime:
    """A date or time, in UTC unless it says otherwise; `2024-02` and `2024` are their first day. Else ValueError."""
    if isinstance(value, str):
        value = value.strip()
        value = datetime.fromisoformat(f"{value}-01-01"[:10] if len(value) in (4, 7) else value)
    elif not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)

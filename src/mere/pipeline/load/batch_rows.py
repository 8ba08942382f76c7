"""The rows of a batch of portions, as a typed DataFrame, and how they go into the table."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mere.errors import RunFailed
from mere.names import RULES
from mere.pipeline.load import database
from mere.pipeline.load.formats.columns import matched
from mere.pipeline.load.formats.elsewhere import Elsewhere
from mere.pipeline.load.frames import frame_rows
from mere.pipeline.load.records import Rows, json_rows, rows_of
from mere.pipeline.write.query import Workshop
from mere.pipeline.write.returned import checked
from mere.project.model import Model
from mere.sources.cache import prune, release
from mere.sources.landing import Landing
from mere.sources.source import Database, Files, Function, Portion, Rest, Source
from mere.sql.spelling.spark import quoted, text_literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mere.sources.fetch import Fetched

Fetching = Callable[[Portion, int, int | None], None]  # how many bytes came, of how many
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_AT_ONCE = 4  # files that are fetched side by side


class Way(Enum):
    """How rows go in."""

    APPEND = auto()  # beside the others; those that a file had before are replaced
    ALL = auto()  # in place of all others
    TAIL = auto()  # in place of those from a value of the cursor on
    MERGE = auto()  # by key


@dataclass(frozen=True)
class Brought:
    rows: Rows
    way: Way
    paths: Mapping[str, Path] = field(default_factory=dict)  # of files: where their lines can be looked up
    checksums: Mapping[str, str | None] = field(default_factory=dict)
    tail: str | None = None  # of rows that are replaced: which
    until: str | None = None  # the greatest value of the cursor
    nothing: bool = False  # there is no row, and nothing has to be written
    verify: Callable[[], None] = lambda: None  # raises if what was read has changed meanwhile

    @property
    def frame(self) -> DataFrame:
        return self.rows.frame


@dataclass(frozen=True)
class Place:
    """Of a build: where relative paths begin, where fetched files are kept, and whom to tell; where they are kept for
    ever, if they are."""

    folder: Path
    cache: Path
    fetching: Fetching
    landing: Landing | None = None


@dataclass(frozen=True)
class Known:
    """What is known of the columns: names and types of those that stand there, and what portions before had."""

    table: Sequence[tuple[str, str]] = ()
    earlier: Collection[str] = ()


@contextmanager
def bring(
    batch: Sequence[Portion],
    source: Source,
    model: Model,
    known: Known,
    place: Place,
    shop: Workshop,
) -> Iterator[Brought]:
    """`source`: with the values of its variables."""
    model = replace(model, body=source)
    if isinstance(source.feed, Files):
        brought = _files(batch, source.feed, model, known, place, shop)
        try:
            yield brought
        finally:
            if any(path.is_relative_to(place.cache) for path in brought.paths.values()):
                release(place.cache, brought.paths.values())
                prune(place.cache)
        return
    (portion,) = batch
    with ExitStack() as stack:
        yield _records(portion, source, model, known, shop, stack)


def _files(
    batch: Sequence[Portion],
    files: Files,
    model: Model,
    known: Known,
    place: Place,
    shop: Workshop,
) -> Brought:
    from mere.sources.fetch import fetched, of_landing, unchanged

    def fetch(portion: Portion) -> Fetched:
        def progress(done: int, of: int | None) -> None:
            place.fetching(portion, done, of)

        if portion.landed and place.landing:
            return of_landing(place.landing.fetched(portion.landed, place.cache), portion)
        found = fetched(files, portion, place.folder, place.cache, progress)
        if place.landing is None:
            return found
        return replace(found, landed=place.landing.keep(model.name, portion, found.path, found.checksum))

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="mere-fetch") as pool:
        found = dict(zip((each.name for each in batch), pool.map(fetch, batch), strict=True))
    paths = {name: each.path for name, each in found.items()}

    def verify() -> None:
        moved = [each.name for each in batch if not unchanged(each, place.folder)]
        if moved:
            raise RunFailed(
                f"{model.file}: {moved[0]} changed while it was read. None of it was loaded.",
                remedy="Run again when the file is complete. Its writer should use another name, then rename it.",
            )

    checksums = {name: each.checksum for name, each in found.items()}
    elsewhere = _elsewhere(found, model, place.landing) if shop.session.is_elsewhere else None
    rows = rows_of(model, batch, paths, known.table, shop.spark, known.earlier, elsewhere)
    return Brought(rows, Way.APPEND, paths, checksums, verify=verify)


def _elsewhere(found: Mapping[str, Fetched], model: Model, landing: Landing | None) -> Elsewhere | None:
    """Without a landing, Spark has to see the disk of this machine."""
    if landing is None:
        return None
    if landing.signed:
        raise RunFailed(
            f"{model.file}: this Spark has no keys for S3 (`signed`), with which it would read the files of {model} in"
            " the landing. Nothing was loaded.",
            remedy="Take `signed` out of `spark:` in mere.yaml, or load sources with a Spark on this machine.",
        )
    return Elsewhere.of({name: each.landed for name, each in found.items() if each.landed}, landing.storage.s3)


def _records(portion: Portion, source: Source, model: Model, known: Known, shop: Workshop, stack: ExitStack) -> Brought:
    """Of an API, a database or a function, which is asked once for all that it gives."""
    rows, until = _given(portion, source, model, known, shop, stack)
    nothing = rows.frame.isEmpty()
    cursor = _cursor(source, model, rows)
    if cursor is None or (nothing and portion.since is None):
        return Brought(rows, Way.ALL, until=until)
    if nothing:
        return Brought(rows, Way.APPEND, until=portion.since, nothing=True)
    kind = rows.frame.schema[cursor].dataType.simpleString()
    bounds = _bounds(rows, cursor)
    _refuse_numbers_as_text(model, cursor, kind, bounds)
    if not isinstance(source.feed, Database):  # which was asked itself, and what it gives may be bounded by infinity
        until = until or bounds.greatest
    if model.key:
        rows = _latest(rows, model, cursor)
    if portion.since is None:  # what stands there is not known to be of it
        return Brought(rows, Way.ALL, until=until)
    if model.key:
        return Brought(rows, Way.MERGE, until=until or portion.since)
    if isinstance(source.feed, Database):
        tail = database.tail(source.feed, portion, cursor, kind)
    else:
        tail = bounds.tail(cursor, kind)
    return Brought(rows, Way.TAIL, tail=tail, until=until or portion.since)


@dataclass(frozen=True)
class _Bounds:
    """Of the cursor of the rows that can be read."""

    least: str | None
    greatest: str | None
    nulls: int

    def tail(self, cursor: str, kind: str) -> str | None:
        """Which rows of the table come again. Nobody knows whether what is asked for from a value on includes it."""
        name = quoted(cursor)
        again = [f"{name} >= CAST({text_literal(self.least)} AS {kind})"] if self.least is not None else []
        again += [f"{name} IS NULL"] if self.nulls else []
        return " OR ".join(again) or None


def _bounds(rows: Rows, cursor: str) -> _Bounds:
    name = quoted(cursor)
    asked = (f"CAST(min({name}) AS STRING)", f"CAST(max({name}) AS STRING)", f"count_if({name} IS NULL)")
    return _Bounds(*rows.frame.where(f"size({RULES}) = 0").selectExpr(*asked).collect()[0])


def _refuse_numbers_as_text(model: Model, cursor: str, kind: str, bounds: _Bounds) -> None:
    """As texts, 10 comes before 9."""
    if kind == "string" and any(each and _NUMBER.fullmatch(each) for each in (bounds.least, bounds.greatest)):
        raise RunFailed(
            f"{model.file}: the cursor {cursor} of {model} is text that holds numbers. Nothing was loaded.",
            remedy=f"Declare its type: `columns: {{{cursor}: bigint}}`.",
        )


def _given(
    portion: Portion, source: Source, model: Model, known: Known, shop: Workshop, stack: ExitStack
) -> tuple[Rows, str | None]:
    """The rows, and the greatest value of the cursor as far as it is known without asking for it."""
    match source.feed:
        case Rest() as rest:
            import pyarrow as pa

            from mere.sources.web.rest import newest, pages

            records = [record for page in pages(rest, portion.since) for record in page]
            texts = pa.table({"raw": pa.array(records, pa.string())})
            until = newest(rest, records) if rest.cursor else None
            return json_rows(model, texts, known.table, shop.spark, portion.name), until
        case Database():
            portion = database.bounded(source, portion, shop.spark)
            frame, until = database.frame(source, portion, shop.spark), portion.until
        case _:
            frame, until = _called(source, model, portion, shop), None
    # What is asked for again might be something else by then.
    frame = frame.persist()
    stack.callback(frame.unpersist)
    return frame_rows(model, frame, known.table, shop.spark, portion.name, known.earlier), until


def _called(source: Source, model: Model, portion: Portion, shop: Workshop) -> DataFrame:
    feed = source.feed
    assert isinstance(feed, Function)
    has: dict[str, Any] = {"spark": shop.spark, "since": portion.since, "now": shop.now}
    made = shop.function(model)(**{name: has[name] for name in feed.takes})
    return checked(made, feed.function, f"{model.file}:{source.line}", shop.spark)


def _cursor(source: Source, model: Model, rows: Rows) -> str | None:
    """The column of the table that is the cursor."""
    cursor = getattr(source.feed, "cursor", None)
    if cursor is None:
        return None
    named = matched(model, source, "", [cursor])
    column = next((each for each in rows.frame.columns if each.casefold() == next(iter(named)).casefold()), None)
    if column is None:
        raise RunFailed(
            f"{model.file}: the cursor {cursor} is not among the columns of {model}.",
            remedy=f"There are: {', '.join(rows.frame.columns)}.",
        )
    return column


def _latest(rows: Rows, model: Model, cursor: str) -> Rows:
    """Of several rows of one key that can be read, the one that came last."""
    keys = ", ".join(map(quoted, model.key))
    bad = f"size({RULES}) > 0"
    last = f"row_number() OVER (PARTITION BY {keys}, {bad} ORDER BY {quoted(cursor)} DESC) AS _mere_nth"
    kept = rows.frame.selectExpr("*", last).where(f"_mere_nth = 1 OR {bad}").drop("_mere_nth")
    return replace(rows, frame=kept)

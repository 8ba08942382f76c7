"""Adopts tables that another catalog made (`mere adopt`): by their metadata alone, without copying data.

The lake and the old owner must not be able to hurt each other, and neither knows of the other. So an adopted table gets
a metadata file and a folder of its own in the warehouse: what is written from now on lands there, where the owner's
`remove_orphan_files` does not look; what was written before stays where it is, outside of the warehouse, where the
sweep does not look. It also starts a new log of metadata files, so that no engine on this side deletes the owner's.
"""

from __future__ import annotations

import shlex
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from mere.errors import LakeError, TableNotFound, Unguarded, UsageError
from mere.lake import faults
from mere.lake.iceberg.files import Reach, read_metadata
from mere.lake.iceberg.metadata import Metadata
from mere.lake.iceberg.properties import ORIGIN
from mere.lake.log.commits import Change, Commit, CommitKind, Entries, Entry, Key, Kind, Space
from mere.lake.place import folders
from mere.lake.query.types import duckdb_type
from mere.lake.refs.guards import ELSEWHERE, Guard
from mere.lake.refs.history import commit_found
from mere.lake.refs.premises import Premises
from mere.lake.storage.port import Storage
from mere.lake.upkeep.discover import Found, Source
from mere.names import MAIN, TableName, near

# Files would land in folders that the old owner, or another table, sweeps.
_EXISTS = "exists"  # the property by which engines know an empty namespace


@dataclass(frozen=True)
class Request:
    source: Source
    tables: Sequence[str]  # names or patterns; none: all
    on: str
    name: str | None  # instead of the source's, for one table
    into: str | None  # the schema, instead of the source's
    author: str
    message: str | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class Candidate:
    """A table or view of the source, and why it cannot be adopted, if so."""

    found: Found
    name: str  # on the branch
    refusals: tuple[str, ...] = ()
    original: Metadata | None = None  # if it can be read
    adopted: Metadata | None = None  # guarded, not yet written

    @property
    def kind(self) -> Kind | None:
        return _kind(self.original) if self.original else None


@dataclass(frozen=True)
class Adoption:
    """What was adopted, or would be."""

    on: str
    tables: tuple[Candidate, ...]
    commit: Commit | None = None  # None: a dry run

    left_out: tuple[str, ...] = ()  # folders of tables that main of a lost catalog did not have
    doubt: str | None = None  # where more than one metadata file may be meant: how to name one

    @property
    def refused(self) -> tuple[Candidate, ...]:
        return tuple(candidate for candidate in self.tables if candidate.refusals)


def adopt(lake: Premises, request: Request) -> Adoption:
    """All tables in one commit, or none."""
    chosen = _chosen(request)
    standing = lake.store.heads([request.on])[request.on].entries
    names = Counter(name for _, name in chosen)
    taken = {name for name, count in names.items() if count > 1}
    examiner = _Examiner(lake, request, standing, taken)
    examined = tuple(examiner.examine(found, name) for found, name in chosen)
    adoption = Adoption(request.on, examined, left_out=request.source.left_out)
    if request.dry_run:
        return replace(adoption, doubt=_doubt(request, adoption.refused))
    if adoption.refused:
        raise _refusal(request, adoption)
    return replace(adoption, commit=_commit(lake, request, adoption.tables))


def _chosen(request: Request) -> list[tuple[Found, str]]:
    """What is asked for, each with its name on the branch."""
    found = _matching(request.source.found, request.tables)
    if request.name is not None and request.into is not None:
        raise UsageError("--as gives the whole name and --into the schema: name one of them.")
    if request.name is not None:
        if len(found) != 1:
            raise UsageError(
                f"--as names one table, and {len(found)} were found: {', '.join(map(str, found))}.",
                remedy="Name the table as well, or use --into SCHEMA for several.",
            )
        if not request.name.isprintable():
            raise UsageError(f"{request.name!r} is not a table name: it has characters that do not print.")
        return [(found[0], str(TableName.parse(request.name)))]
    if any(not each.parts for each in found):
        raise UsageError("This table has no name of its own.", remedy="Give it one: --as schema.table")
    if request.into is None:
        return [(each, str(each)) for each in found]
    return [(each, str(TableName.parse(f"{request.into}.{each.parts[-1]}"))) for each in found]


def _matching(found: Sequence[Found], patterns: Sequence[str]) -> list[Found]:
    known = [str(each) for each in found]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise TableNotFound(f"The source has no table {pattern}.{near(pattern, known)}")
    if not found:
        raise TableNotFound("The source has no tables.")
    return [each for each in found if not patterns or any(fnmatchcase(str(each), pattern) for pattern in patterns)]


class _Examiner:
    """Finds every reason against a table, not only the first."""

    def __init__(self, lake: Premises, request: Request, standing: Entries, taken: Collection[str]) -> None:
        self._lake = lake
        self._request = request
        self._standing = standing
        self._taken = taken  # names that more than one of the tables would get
        self._storage = lake.storage
        # A view may have been made in the source's own catalog, and then loses that name.
        catalog = request.source.catalog or ""
        self._refs = {ref.name for ref in lake.store.refs()}
        refs = self._refs | ({catalog} if catalog else set())
        self._guard = Guard(lake.reader, catalog, refs, request.on)

    def examine(self, found: Found, name: str) -> Candidate:
        refusals = [*self._against_name(found, name)]
        if found.pointer is None:
            return Candidate(found, name, (*refusals, found.problem or "it has no metadata file"))
        try:
            original = read_metadata(self._storage, found.pointer)
            refusals += self._against_metadata(original)
            refusals += self._against_files(original)
        except LakeError as error:
            # The lake does not point to it yet, whatever its storage thinks.
            reason = error.message.partition(", though the lake")[0].rstrip(".")
            return Candidate(found, name, (*refusals, reason))
        try:
            adopted = None if refusals else self._adopted(original, TableName.parse(name))
        except Unguarded as error:
            refusals.append(error.message.rstrip("."))
            adopted = None
        return Candidate(found, name, tuple(refusals), original, adopted)

    def _against_name(self, found: Found, name: str) -> Iterator[str]:
        parts = [name] if self._request.name else found.parts[-1:] if self._request.into else found.parts
        if not self._request.name and any("." in part or not part for part in parts):
            yield "a part of its name has a dot in it, so it cannot be addressed; give it another with --as"
            return
        if "." not in name:
            yield "it is in no schema; give it one with --into SCHEMA"
            return
        if not name.isprintable():
            yield "its name has a line break or another character that does not print; give it another with --as"
            return
        if not TableName.parse(name).is_plain:
            yield "no query could spell its name; give it another with --as"
            return
        first, _, rest = name.partition(".")
        if "." in rest and first in self._refs:
            yield f"{first} is a ref of this lake, and {name} would mean {rest} there; give it another name with --as"
        if Key.of(TableName.parse(name)) in self._standing:
            yield f"{self._request.on} already has a table or view of that name"
        if name in self._taken:
            yield "another table of the source would get the same name"

    def _against_metadata(self, metadata: Metadata) -> Iterator[str]:
        if not metadata.is_whole:
            yield f"{metadata.location} is not the metadata of a table or view"
            return
        if _kind(metadata) is Kind.VIEW:
            if self._request.into:
                yield "it is a view, whose SQL names its tables by their old schema, so --into would break it"
            return
        if elsewhere := sorted(set(ELSEWHERE) & metadata.properties.keys()):
            yield (
                f"its property {', '.join(elsewhere)} puts new files where this lake does not look after them;"
                " unset it at the source"
            )
        if metadata.is_encrypted:
            yield "it is encrypted, and this lake has no keys"
        unknown = [field["name"] for field in metadata.schema["fields"] if duckdb_type(field["type"]) is None]
        if unknown:
            yield f"its columns {', '.join(unknown)} have types that mere cannot read"
        if metadata.is_early:
            yield "its metadata is in an early form of format 1; let its owner's engine write to it once"

    def _against_files(self, metadata: Metadata) -> Iterator[str]:
        """Every manifest of every snapshot is read, and every file looked for."""
        reach = Reach(self._storage)
        warehouse = reach.normal(f"{self._lake.warehouse}/-").removesuffix("-")
        location = metadata.folder or ""
        folder = reach.normal(f"{location.rstrip('/')}/-").removesuffix("-")
        reach.add(metadata.location)
        if folder.startswith(warehouse) or any(file.startswith(warehouse) for file in reach):
            yield (
                "its files are in this lake's own warehouse, so it already belongs to a ref of this lake;"
                " use mere branch and mere publish"
            )
        elif warehouse.startswith(folder):
            yield f"its folder {location} has this lake in it: clearing it of orphans would delete the lake's files"
        elif missing := _missing(self._storage, reach, folder):
            yield missing

    def _adopted(self, original: Metadata, table: TableName) -> Metadata:
        kind = _kind(original)
        guarded = self._guard.better(Key.of(table), kind, original) or original
        folder = folders.fresh(self._lake.warehouse, table)
        raw = {
            **guarded.raw,
            "location": folder,
            "properties": {**guarded.properties, ORIGIN: original.location},
        }
        if kind is Kind.TABLE:
            raw["metadata-log"] = []
        return Metadata(f"{folder}/metadata/00000-{uuid.uuid4()}.metadata.json", raw)


def _missing(storage: Storage, reach: Reach, folder: str) -> str | None:
    """One listing tells of nearly all files whether they are there: to ask for each would take hours on S3."""
    present = {reach.normal(file.location) for file in storage.files(folder)}
    missing = sorted(file for file in reach if file not in present and not storage.exists(file))
    more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
    return f"{missing[0]}{more} is missing" if missing else None


def _kind(metadata: Metadata) -> Kind:
    return Kind.VIEW if metadata.is_view else Kind.TABLE


def _commit(lake: Premises, request: Request, tables: Sequence[Candidate]) -> Commit:
    written: dict[TableName, Entry] = {}
    for candidate in tables:
        if candidate.adopted:
            pointer = lake.reader.write(candidate.adopted)
            written[TableName.parse(candidate.name)] = Entry(_kind(candidate.adopted), pointer)
    faults.point("adopt.written")

    def changes() -> list[Change]:
        standing = lake.store.heads([request.on])[request.on].entries
        if taken := sorted(str(table) for table in written if Key.of(table) in standing):
            raise Unguarded(f"{', '.join(taken)} has been made on {request.on} meanwhile. Nothing was adopted.")
        namespaces = {table.namespace for table in written} - {key.namespace for key in standing}
        keys = [Key(Space.PROPERTY, namespace, _EXISTS) for namespace in sorted(namespaces)]
        made = [Change(key, None, Entry(Kind.PROPERTY, "true")) for key in keys]
        return made + [Change(Key.of(table), None, entry) for table, entry in written.items()]

    message = request.message or f"adopt {', '.join(map(str, sorted(written)))}"
    commit = commit_found(lake.store, lake.reader, request.on, CommitKind.ADOPT, changes, request.author, message)
    if commit is None:
        raise AssertionError("an adoption without a table")
    return commit


def _refusal(request: Request, adoption: Adoption) -> Unguarded:
    lines = [f"  {each.name or each.found.pointer}: {reason}" for each in adoption.refused for reason in each.refusals]
    return Unguarded(
        f"{len(adoption.refused)} of {len(adoption.tables)} tables cannot be adopted. Nothing was changed.\n"
        + "\n".join(lines),
        remedy=_doubt(request, adoption.refused)
        or "Fix them at the source, or name only the others: mere adopt SOURCE TABLE…",
    )


def _doubt(request: Request, refused: Sequence[Candidate]) -> str | None:
    doubtful = [each.found.suggested for each in refused if each.found.suggested]
    if not doubtful or len(doubtful) < len(refused):
        return None
    words = ["mere", "adopt", request.source.place, *request.tables, *_options(request)]
    words += [word for file in doubtful for word in ("--metadata", file)]
    what = "is the one that main had" if len(doubtful) == 1 else "are those that main had"
    return (
        f"Look at what they hold, and name the right one. If it {what} or the newest, that is:\n  {shlex.join(words)}\n"
        "--newest takes the newest of each, from any branch."
    )


def _options(request: Request) -> Iterator[str]:
    for option, value in (("--as", request.name), ("--into", request.into)):
        if value is not None:
            yield from (option, value)
    if request.on != MAIN:
        yield from ("--on", request.on)

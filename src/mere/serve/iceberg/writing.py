"""Writes the changes of a request: one commit on a branch, by the caller, and one answer however often it is sent."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from starlette.responses import Response

from mere.errors import LakeConflict, MereError
from mere.lake.log.commits import Change, CommitKind, Entry, Key
from mere.lake.log.refs import Ref
from mere.lake.refs.retry import retried_while_moving
from mere.lake.store.port import Edit, Receipt, Repeated
from mere.serve.http.errors import HttpError, bad_request, forbidden, of_any
from mere.serve.iceberg.call import EMPTY, Call, Handler
from mere.serve.iceberg.files import loaded
from mere.serve.iceberg.grants import named, settings

_KEY = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HEADER = "idempotency-key"
_FINAL = (400, 404, 409, 422)  # what is so by the request; a server's trouble and who is let in may be otherwise soon


@dataclass(frozen=True)
class Answer:
    """What a client is told of its write: nothing, a metadata file, or something else."""

    status: int = EMPTY
    pointer: str | None = None
    content: str = ""

    def response(self, call: Call) -> Response:
        if self.pointer is not None:
            body = loaded(self.pointer, call.files.content(self.pointer), settings(call))
            return Response(body, self.status, media_type="application/json")
        return Response(self.content, self.status, media_type="application/json" if self.content else None)


@dataclass(frozen=True)
class Write:
    """What is to be done, as things stand. No changes: it is so already."""

    message: str
    changes: Sequence[Change] = ()
    answer: Answer = Answer()
    kind: CommitKind = CommitKind.WRITE
    reads: Mapping[Key, Entry | None] = field(default_factory=dict)


def written(call: Call, branch: Ref, find: Callable[[], Write]) -> Response:
    """Do it, in one commit. Where the branch has moved meanwhile, it is found anew what there is to do."""

    def attempt() -> Answer:
        found = find()
        receipt = _receipt(call, found.answer)
        if found.changes:
            message = f"{found.message}{_engine(call)}"
            author, reads = call.access.caller.name, found.reads
            edit = Edit(branch.name, found.kind, tuple(found.changes), author, message, reads=reads, receipt=receipt)
            call.about["commit"] = call.lake.store.commit(edit).short_id
        elif receipt is not None:
            call.lake.store.keep_receipt(receipt)
        return found.answer

    given_up = f"{branch.name} is being written to too fast. Nothing was changed."
    return retried_while_moving(attempt, given_up, error=LakeConflict).response(call)


def once(handler: Handler) -> Handler:
    """A request with a key is done once. A client sends it again where it has heard nothing, and hears the same."""

    def answered(call: Call) -> Response:
        key = call.headers.get(_HEADER)
        if key is None:
            return handler(call)
        if not _KEY.fullmatch(key):
            raise bad_request("An Idempotency-Key consists of 1 to 64 letters, digits and . _ -")
        if (known := _known(call)) is not None:
            return known
        try:
            return handler(call)
        except Repeated:
            found = _known(call)
            assert found is not None  # it was there a moment ago
            return found
        except (HttpError, MereError) as error:
            told = of_any(error)
            if told.status in _FINAL and not _is_kept(call, told):
                found = _known(call)
                assert found is not None
                return found
            raise

    return answered


def _is_kept(call: Call, told: HttpError) -> bool:
    receipt = _receipt(call, Answer(told.status, content=told.body().decode()))
    assert receipt is not None
    try:
        call.lake.store.keep_receipt(receipt)
    except Repeated:
        return False
    return True


def _known(call: Call) -> Response | None:
    """The answer that was given, if the caller may have it still."""
    found = call.lake.store.receipt(call.access.caller.name, call.operation, call.headers[_HEADER])
    if found is None:
        return None
    if found.request != _digest(call):
        raise HttpError(422, "UnprocessableEntityException", "Another request has used this Idempotency-Key.")
    branch = call.warehouse.branch()
    if found.pointer is not None:
        _check_shown(call, branch)
    return Answer(found.status, found.pointer, found.content).response(call)


def _check_shown(call: Call, branch: Ref) -> None:
    """Another token of the same user may see less, and roles change."""
    table = named(call)
    if table is None:
        raise forbidden("The answer is not shown any more.")
    if "/views" in call.operation or call.operation.endswith("/register-view"):
        call.access.check_view(branch.name, table.namespace, table.name)
    else:
        call.access.check_files(table)


def _receipt(call: Call, answer: Answer) -> Receipt | None:
    key = call.headers.get(_HEADER)
    if key is None:
        return None
    told = (answer.status, answer.pointer, answer.content)
    return Receipt(call.access.caller.name, call.operation, key, *told, _digest(call))


def _digest(call: Call) -> str:
    return hashlib.sha256(call.body).hexdigest()[:32]


def _engine(call: Call) -> str:
    """By which program, as it says itself; Trino says of its snapshots only, also for whom it works."""
    headers = call.headers
    named = headers.get("x-client-version") or headers.get("user-agent", "").partition(" ")[0].partition("(")[0]
    if call.trino is not None:
        named = " ".join(["Trino", *_of_trino(call)])
    shown = "".join(each for each in named[:60] if each.isprintable())
    return f" ({shown})" if shown else ""


def _of_trino(call: Call) -> Iterator[str]:
    """Its version, and its user."""
    updates = call.json.get("updates") if call.body else None
    snapshots = [each.get("snapshot") for each in updates or () if isinstance(each, dict)]
    summaries = [each["summary"] for each in snapshots if each and isinstance(each.get("summary"), dict)]
    said = summaries[0] if summaries else {}
    if "engine-version" in said:
        yield str(said["engine-version"])
    if "trino_user" in said:
        yield f"for {said['trino_user']}"

"""The lake behind the wire: one DuckDB for all connections, a commit for each statement."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from mere.errors import InvalidName, LakeError, MereError, RefNotFound
from mere.lake.log.refs import RefKind
from mere.names import MAIN, RefExpression, near
from mere.serve.access.limits import Resources
from mere.serve.access.roles import Everybody, Role, Roles
from mere.serve.builtin.settings import SERVER_VERSION, spelled
from mere.serve.engine import functions
from mere.serve.engine.engine import Engine
from mere.serve.engine.recent import Recent
from mere.serve.engine.tables import Pin
from mere.serve.language import errors
from mere.serve.language.compiler import Plans
from mere.serve.protocol.activity import Activity
from mere.serve.protocol.port import PgError
from mere.serve.session.kept import Answers
from mere.serve.session.session import LakeSession

if TYPE_CHECKING:
    from mere.lake.lake import Lake

_PINS = 100  # that are kept although no session is at them


class LakeBackend:
    """Implements `port.Backend`."""

    def __init__(self, lake: Lake, roles: Roles | None = None, resources: Resources | None = None) -> None:
        self._lake = lake
        self._roles = roles or Everybody()
        self._resources = resources or Resources()
        self._lock = threading.Lock()
        # The last one of each ref. A client may name as many as it likes: main@09:00:01, main@09:00:02.
        self._pins: WeakValueDictionary[str, Pin] = WeakValueDictionary()
        self._sessions: WeakValueDictionary[int, LakeSession] = WeakValueDictionary()
        self._recent: Recent[str, Pin] = Recent(_PINS)
        self._engine: Engine | None = None
        self._retired: list[Engine] = []
        self.plans = Plans()
        self.answers = Answers()
        self.activity = Activity()
        self.version = f"PostgreSQL {SERVER_VERSION} (mere)"

    def admit(self) -> None:
        self._roles.admit()

    def connect(self, user: str, database: str, settings: dict[str, str], process: int = 0) -> LakeSession:
        database = self._meant(user, database)
        session = LakeSession(self, user, database, settings, process)
        self._sessions[session.number] = session
        self.engine_for(())  # its start is no part of the first statement's time
        return session

    def _set(self, session: int, name: str | None, value: str | None, local: bool | None) -> str | None:
        """What set_config does: as SET, with texts that are computed."""
        if name is None:
            raise ValueError("22004:SET requires parameter name")
        known = self._sessions[session]
        try:
            known.set(name, value, bool(local))
        except PgError as error:
            raise ValueError(f"{error.sqlstate}:{error.message}") from error
        return known.settings.get(spelled(name))

    def _meant(self, user: str, database: str) -> str:
        """Whoever names no database asks for the one of the user's name, as Postgres has it. Here that is main, unless
        there is such a ref that the user may read."""
        if database != user:
            return database
        try:
            self.role(user, database)
            self._lake.resolve(database)
        except (RefNotFound, PgError):
            return MAIN
        except MereError as error:
            raise errors.of_mere(error) from error
        return database

    def role(self, user: str, database: str) -> Role:
        """The one that the user has now. PgError where there is none, or where it may not read that."""
        role = self._roles.of(user)
        if role is None:
            raise PgError("28000", f'role "{user}" does not exist')
        try:
            expression = RefExpression.parse(database)
        except InvalidName as error:
            raise PgError("3D000", f'database "{database}" does not exist', hint=error.message) from error
        if not role.may_read_at(expression):
            raise self.missing(role, database)
        return role

    def missing(self, role: Role, database: str) -> PgError:
        """The same for a ref that is not there and for one that the role may not read: only others are hinted at."""
        base = RefExpression.parse(database).base
        visible = self.databases(role)
        if base not in visible:
            hint = near(base, visible).strip() or None
        elif role.history:
            hint = f"The history of {base} does not go so far back."
        else:
            hint = f"The role {role.name} reads the present of a ref, not its history."
        return PgError("3D000", f'database "{database}" does not exist', hint=hint)

    def pin(self, database: str, commit: str | None = None) -> Pin:
        """The commit at which the ref is now, or was. It stays the same object as long as the ref stays there."""
        known = self._pins.get(database)
        if commit is not None:
            return known if known and known.commit == commit else Pin(database, commit, self._lake.at(commit))
        tables = self._lake.current(known.tables) if known is not None else self._lake.at(database)
        if known is None or known.commit != tables.commit.id:
            known = self._pins[database] = Pin(database, tables.commit.id, tables)
        self._recent.keep(database, known)
        return known

    def check(self, database: str) -> None:
        """RefNotFound, if there is no such ref."""
        self._lake.resolve(database)

    def others(self, databases: Collection[str]) -> dict[str, Pin]:
        """Several refs, all read at one instant."""
        found = {}
        for database, tables in self._lake.at_each(databases).items():
            known = self._pins.get(database)
            if known is None or known.commit != tables.commit.id:
                known = self._pins[database] = Pin(database, tables.commit.id, tables)
            self._recent.keep(database, known)
            found[database] = known
        return found

    def databases(self, role: Role) -> tuple[str, ...]:
        """The refs that the role may connect to."""
        try:
            refs = self._lake.refs(RefKind.BRANCH, RefKind.TAG)
        except LakeError:
            return ()
        return tuple(ref.name for ref in refs if role.may_connect(ref.name))

    def engine_for(self, folders: Sequence[str]) -> Engine:
        """One that reads these folders. It is a new one if a table was adopted that lies outside of the lake, or if the
        last one broke."""
        with self._lock:
            engine = self._engine
            if engine is None or engine.broken or not all(engine.reaches(folder) for folder in folders):
                known = engine.folders if engine is not None else (self._lake.location,)
                if engine is not None:
                    self._retired.append(engine)  # statements may still run there
                wanted = dict.fromkeys([*known, *(each for each in folders if not _below(each, known))])
                engine = self._engine = Engine(
                    list(wanted),
                    self._lake.storage,
                    self._resources,
                    engine.watch if engine else None,
                )
                engine.add(functions.SIGNAL, self.activity.signal)
                engine.add(functions.SET, self._set)
            return engine

    def close(self) -> None:
        with self._lock:
            for engine in [*self._retired, *([self._engine] if self._engine else [])]:
                engine.close()
            self._engine, self._retired = None, []


def _below(folder: str, known: Sequence[str]) -> bool:
    return any(f"{folder}/".startswith(f"{each.rstrip('/')}/") for each in known)

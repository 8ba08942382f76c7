"""A connection as the SQL part sees it, and the rows of its queries."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from mere.errors import MereError, RefNotFound
from mere.serve import catalog
from mere.serve.access.limits import Budget
from mere.serve.access.roles import Role
from mere.serve.builtin import settings as settings_
from mere.serve.builtin.names import TEMPORARY
from mere.serve.catalog import Surroundings, temporary
from mere.serve.engine.tables import Pin
from mere.serve.language import errors, guard, rights, statements, versions
from mere.serve.language.compiler import Compiled, Compiler
from mere.serve.language.mend.operators import Context
from mere.serve.language.views import Views
from mere.serve.protocol.port import Described, PgError
from mere.serve.protocol.statement import CreateView, DropView, Explain, Select, Show, Statement
from mere.serve.session.answer import FixedAnswer, LakeAnswer, Running, fields_of, plan_lines
from mere.serve.session.kept import KeptAnswer

if TYPE_CHECKING:
    from mere.serve.session.backend import LakeBackend

_NUMBERS = itertools.count(1)  # of the sessions


class LakeSession:
    """Implements `port.Session`."""

    def __init__(self, backend: LakeBackend, user: str, database: str, settings: dict[str, str], process: int) -> None:
        self._backend = backend
        self._role = backend.role(user, database)
        self._seen: tuple[Pin, Role, frozenset[str]] | None = None
        self._user = user
        self.database = database
        self._process = process
        self.number = next(_NUMBERS)
        self._pin: Pin | None = None
        self._others: dict[str, Pin] = {}  # refs besides the database
        self._in_transaction = False
        path = settings_.path(self._schemas(self._current()))
        # Never changed in place: whoever has asked for them keeps what they were.
        self._settings = {**settings_.DEFAULTS, "session_authorization": user, "search_path": path}
        self._initial = self._settings
        self._local: dict[str, str] = {}
        self.views = Views()
        self._running: set[Running] = set()
        self._prepared: Budget | None = None  # of the statement that is being read or compiled
        self._lock = threading.Lock()
        for name, value in settings.items():
            self._set(name, value)
        self._initial = self._settings

    @property
    def settings(self) -> dict[str, str]:
        return {**self._settings, **self._local} if self._local else self._settings

    @property
    def commit(self) -> str | None:
        return self._pin.commit if self._pin else None

    def read(self, text: str) -> list[Statement]:
        with self._preparing(Budget(self._timeout())):
            return statements.read(text)

    def describe(self, statement: Statement, declared: Sequence[int], values: Sequence[Any] | None = None) -> Described:
        if isinstance(statement, Show):
            shown = self._shown(statement.name).schema
            return Described((), fields_of(shown), shown)
        compiled, budget = self._compiled(statement, declared)
        try:
            sql = compiled.sql_without_values if values is None else compiled.sql
            compiled.confirm(sql)
            if isinstance(statement, Explain):
                plan = plan_lines([]).schema
                return Described(compiled.oids, fields_of(plan), plan)
            zone = self.settings["TimeZone"]
            if values is None and zone in compiled.described:
                return compiled.described[zone]
            with self._execution(compiled, budget) as running:
                schema, named = running.schema(sql, values)
            described = Described(compiled.oids, fields_of(named, compiled.origins), schema)
            if values is None:
                compiled.described[zone] = described
            return described
        finally:
            compiled.release()

    def run(
        self, statement: Statement, values: Sequence[Any], oids: Sequence[int]
    ) -> LakeAnswer | FixedAnswer | KeptAnswer:
        if isinstance(statement, Show):
            return FixedAnswer(self._shown(statement.name))
        compiled, budget = self._compiled(statement, oids)
        try:
            if compiled.oids and not values:
                raise PgError("42P02", "there is no parameter $1")
            if len(compiled.oids) > len(values):
                raise PgError("08P01", f"there are {len(compiled.oids)} parameters, but {len(values)} values")
            sql = compiled.sql
            compiled.confirm(sql)
            if isinstance(statement, Explain) and self._role.is_restricted:
                raise PgError("42501", "permission denied to explain: a plan would show what this role may not see")
            if isinstance(statement, Explain):
                with self._execution(compiled, budget) as running:
                    return FixedAnswer(plan_lines(running.explain(sql, values)))
            most, gate, answers = self._role.limits.rows, self._gate(), self._backend.answers
            key = answers.key(compiled, self.settings["TimeZone"], values)
            if key is not None and (kept := answers.get(key)) is not None:
                compiled.release()
                return KeptAnswer(kept, most, gate)
            keep = None if key is None else partial(answers.collected, key)
            return LakeAnswer(self._start(compiled, budget), sql, values, most, self._stop, gate, keep)
        except BaseException:
            compiled.release()
            raise

    def _shown(self, name: str) -> pa.Table:
        known = self.settings
        if name == "all":
            names = sorted(known, key=str.lower)
            return pa.table(
                {"name": names, "setting": [known[each] for each in names], "description": [""] * len(names)}
            )
        spelled = settings_.spelled(name)
        if spelled not in known:
            raise PgError("42704", f'unrecognized configuration parameter "{name}"')
        return pa.table({spelled: pa.array([known[spelled]], pa.string())})

    def _gate(self) -> Callable[[], None]:
        """Raises PgError as soon as the role of the statement is not the user's any more."""
        role = self._role

        def check() -> None:
            now = self._backend.role(self._user, self.database)
            if now is not role and now.key != role.key:
                raise PgError("42501", "permission denied: what this user may read has changed", hint="Ask again.")

        return check

    # Pins

    def begin(self, commit: str | None = None) -> None:
        self._in_transaction = True
        self._others = {}
        try:
            self._pin = self._backend.pin(self.database, commit) if commit is not None else None
        except MereError as error:
            raise self._unreachable(error) from error

    def end(self) -> None:
        self._in_transaction = False
        self._others = {}
        self._local.clear()

    def _current(self) -> Pin:
        """With the role that the user has now."""
        self._role = self._backend.role(self._user, self.database)
        try:
            if self._pin is None or not self._in_transaction:
                self._pin = self._backend.pin(self.database)
        except MereError as error:
            raise self._unreachable(error) from error
        return self._pin

    def _pinned(self, tree: exp.Expr) -> Pin:
        """The database, and the refs that a query reads besides: outside of a transaction all at one instant, in one
        from when they were named first."""
        starts = not self._in_transaction or self._pin is None
        pin = self._current()
        if not self._in_transaction:
            self._others = {}
        wanted = {ref for ref in versions.others(tree, self.database) if ref not in self._others}
        there = {ref for ref in wanted if self._is_there(ref)}
        if there:
            found = self._backend.others({*there, self.database} if starts else there)
            self._pin = pin = found.pop(self.database, pin)
            self._others = {**self._others, **found}
        return pin

    def _is_there(self, ref: str) -> bool:
        try:
            self._backend.role(self._user, ref)
            self._backend.check(ref)
        except (PgError, RefNotFound):
            return False
        return True

    def _other(self, ref: str) -> Pin:
        """The same for a ref that is not there and for one that the user may not read."""
        role = self._backend.role(self._user, ref)
        if ref not in self._others:
            raise self._backend.missing(role, ref)
        pin = self._others[ref]
        if unmet := role.unmet(pin.tables):
            raise rights.at_commit(role, unmet, ref)
        return pin

    def _unreachable(self, error: MereError) -> PgError:
        if isinstance(error, RefNotFound):
            return self._backend.missing(self._role, self.database)
        return errors.of_mere(error)

    # Settings

    def set(self, name: str | None, value: str | None, local: bool) -> None:
        if name is None:
            self._settings, self._local = self._initial, {}
        elif value is None:
            spelled = settings_.spelled(name)
            self._local.pop(spelled, None)
            kept = {each: value for each, value in self._settings.items() if each != spelled}
            before = self._initial.get(spelled)
            self._settings = kept if before is None else kept | {spelled: before}
        elif local:
            spelled = settings_.spelled(name)
            checked = settings_.checked(spelled, value)
            settings_.fit(self.settings | {spelled: checked})
            if self._in_transaction:
                self._local[spelled] = checked
        else:
            self._set(name, value)

    def _set(self, name: str, value: str) -> None:
        spelled = settings_.spelled(name)
        checked = settings_.checked(spelled, value)
        changed = self._settings | {spelled: checked}
        settings_.fit(changed)
        self._settings = changed
        self._local.pop(spelled, None)

    # Temporary views

    def create_view(self, statement: CreateView) -> None:
        described = self.describe(statement.query, ())
        if described.parameters:
            raise PgError("42P02", "there is no parameter $1")
        self.views = self.views.with_one(statement, described.fields, self._compiler(statement.query.parsed.tree).scope)

    def drop_views(self, statement: DropView) -> list[PgError]:
        notices, dropped = [], set()
        for schema, name in statement.names:
            if self.views.has(schema, name):
                dropped.add(name)
                continue
            if self._is_in_lake(schema, name):
                raise guard.read_only("DROP VIEW", statement.start)
            if not statement.missing_ok:
                raise PgError("42P01", f'view "{name}" does not exist')
            notices.append(PgError("00000", f'view "{name}" does not exist, skipping'))
        self.views = self.views.without(dropped, cascade=statement.cascade)
        return notices

    def drop_all_views(self) -> None:
        self.views = Views()

    def _is_in_lake(self, schema: str | None, name: str) -> bool:
        try:
            self._compiler().scope.find(exp.table_(name, schema, quoted=True))
        except PgError as error:
            if error.sqlstate != "42P01":
                raise
            return False
        return True

    # Running

    def cancel(self) -> None:
        if (prepared := self._prepared) is not None:
            prepared.cancelled = True
        with self._lock:
            running = list(self._running)
        for each in running:
            each.cancel()

    def close(self) -> None:
        self.cancel()

    def _compiler(self, tree: exp.Expr | None = None) -> Compiler:
        """Of a query, with the refs that it reads."""
        try:
            pin = self._current() if tree is None else self._pinned(tree)
        except MereError as error:
            raise self._unreachable(error) from error
        known = self.settings
        path, seen = settings_.schemas(known["search_path"]), self._schemas(pin)
        context = Context(
            user=self._user,
            database=self.database,
            commit=pin.commit,
            settings=known,
            schemas=tuple(schema for schema in path if schema == "public" or schema in seen),
            implicit=(TEMPORARY, "pg_catalog") if self.views else ("pg_catalog",),
            pid=self._process,
            version=self._backend.version,
            session=self.number,
        )
        views = tuple(temporary.relation(each.name, each.text, each.fields) for each in self.views)
        tables = catalog.tables(pin, self._role, lambda: self._surroundings(known), views)
        backend = self._backend
        return Compiler(pin, self._role, context, tables, path, backend.engine_for, backend.plans, self._other)

    def _surroundings(self, settings: dict[str, str]) -> Surroundings:
        return Surroundings(
            database=self.database,
            databases=self._backend.databases(self._role),
            user=self._user,
            settings=settings,
            seats=tuple(self._backend.activity.of(self._user)),
        )

    def _schemas(self, pin: Pin) -> frozenset[str]:
        """Those with a table that the role may read. It is asked for every statement, and found out once a commit."""
        if self._seen is None or self._seen[0] is not pin or self._seen[1] is not self._role:
            if unmet := self._role.unmet(pin.tables):
                raise rights.at_commit(self._role, unmet, self.database)
            seen = frozenset(table.namespace for table in pin.tables if self._role.may_read(table))
            self._seen = pin, self._role, seen
        return self._seen[2]

    def _compiled(self, statement: Statement, oids: Sequence[int]) -> tuple[Compiled, Budget]:
        """With what is left of its time."""
        assert isinstance(statement, Select), f"{statement.tag} returns no rows"
        budget = Budget(self._timeout())
        with self._preparing(budget):
            tree = self.views.expanded(statement.parsed.tree)
            compiled = self._compiler(tree).compile(tree, oids)
        return compiled, budget

    @contextmanager
    def _preparing(self, budget: Budget) -> Iterator[None]:
        self._prepared = budget
        try:
            with budget.preparing():
                yield
        finally:
            self._prepared = None

    def _start(self, compiled: Compiled, budget: Budget) -> Running:
        running = Running(compiled, self.settings["TimeZone"], budget)
        with self._lock:
            self._running.add(running)
        return running

    def _stop(self, running: Running) -> None:
        with self._lock:
            self._running.discard(running)

    @contextmanager
    def _execution(self, compiled: Compiled, budget: Budget) -> Iterator[Running]:
        running = self._start(compiled, budget)
        try:
            yield running
        finally:
            self._stop(running)
            running.close()

    def _timeout(self) -> timedelta | None:
        """The shorter one of the role's and the session's."""
        own = settings_.timeout(self.settings)
        known = [each for each in (self._role.limits.time, own) if each]
        return min(known, default=None)

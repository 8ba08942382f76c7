"""Temporary views: named queries of a session, which replace their names in its other queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from sqlglot import exp

from mere.serve.builtin.names import TEMPORARY
from mere.serve.language import guard, names, versions
from mere.serve.parse import syntax
from mere.serve.parse.words import Words
from mere.serve.protocol.port import Field, PgError
from mere.serve.protocol.statement import CreateView, DropView, Parsed, Select, Statement

_SCHEMAS = ("pg_temp", TEMPORARY)
_MOST = 100  # of a session
_LONGEST = 400_000  # characters of all of them
_KEPT, _SHORT = 4, 500  # queries that are kept with views put in, and the nodes of one that is
_BEFORE_KIND = ("OR", "REPLACE", "LOCAL", "GLOBAL", "TEMP", "TEMPORARY", "UNLOGGED", "RECURSIVE")


def kind(words: Words) -> str:
    """What CREATE, ALTER or DROP is about: TABLE, also in CREATE OR REPLACE TEMPORARY TABLE."""
    at = 1
    while syntax.is_word(words.peek(at), *_BEFORE_KIND):
        at += 1
    token = words.peek(at)
    return token.text.upper() if token is not None and syntax.is_name(token) else ""


def is_about_them(words: Words) -> bool:
    if kind(words) != "VIEW":
        return False
    return syntax.is_word(words.peek(), "DROP") or any(
        syntax.is_word(words.peek(at), "TEMP", "TEMPORARY") for at in range(1, 5)
    )


def read(words: Words, query: Callable[[Words], Select]) -> Statement:
    return _dropped(words) if words.skip("DROP") else _created(words, query)


def _created(words: Words, query: Callable[[Words], Select]) -> Statement:
    words.expect("CREATE")
    replaces = words.skip("OR")
    if replaces:
        words.expect("REPLACE")
    while words.skip("LOCAL", "GLOBAL", "TEMP", "TEMPORARY"):
        pass
    if words.skip("RECURSIVE"):
        raise PgError("0A000", "CREATE RECURSIVE VIEW is not supported", hint="Write WITH RECURSIVE in its query.")
    words.expect("VIEW")
    schema, name = _name(words)
    if schema not in (None, *_SCHEMAS):
        raise PgError("42P16", "cannot create temporary relation in non-temporary schema")
    columns = []
    if words.skip("("):
        columns.append(words.name())
        while words.skip(","):
            columns.append(words.name())
        words.expect(")")
    if words.skip("WITH"):
        words.expect("(")
        words.bracket()
    words.expect("AS")
    inner = query(words)
    return CreateView("CREATE VIEW", *words.span, query=inner, name=name, columns=tuple(columns), replace=replaces)


def _dropped(words: Words) -> Statement:
    words.expect("VIEW")
    missing_ok = words.skip("IF")
    if missing_ok:
        words.expect("EXISTS")
    found = [_name(words)]
    while words.skip(","):
        found.append(_name(words))
    cascade = words.skip("CASCADE")
    if not cascade:
        words.skip("RESTRICT")
    words.end()
    return DropView("DROP VIEW", *words.span, names=tuple(found), missing_ok=missing_ok, cascade=cascade)


def _name(words: Words) -> tuple[str | None, str]:
    name = words.name()
    return (name, words.name()) if words.skip(".") else (None, name)


@dataclass(frozen=True)
class View:
    """Its names mean what they meant when it was made, whatever search path and other views there are later."""

    name: str
    columns: tuple[str, ...]  # the names that it gives to the first ones of its query
    text: str  # of its query
    query: Parsed
    tables: tuple[str | None, ...]  # of the query, in order: the schema of each, TEMPORARY for another view
    fields: tuple[Field, ...]

    @property
    def reads(self) -> frozenset[str]:
        """The other views in it."""
        return frozenset(node.name for node in self.tree().find_all(exp.Table) if node.text("db") == TEMPORARY)

    def tree(self) -> exp.Expr:
        """A new one, without positions: they are those of another text."""
        tree = _prepared(self.query)
        for node, schema in zip(list(tree.find_all(exp.Table)), self.tables, strict=True):
            if schema is not None:
                node.set("db", exp.to_identifier(schema, quoted=True))
        return tree


def _prepared(query: Parsed) -> exp.Expr:
    tree = query.tree.copy()
    for node in tree.walk():
        for each in ("start", "end"):
            node.meta.pop(each, None)
    names.fold(tree)
    return names.name_columns(tree)


@dataclass(frozen=True)
class Views:
    """Those of a session. Never changed in place."""

    by_name: Mapping[str, View] = field(default_factory=dict)
    _put_in: dict[int, tuple[exp.Expr, exp.Expr]] = field(default_factory=dict, compare=False, repr=False)

    def __iter__(self) -> Iterator[View]:
        return iter(self.by_name.values())

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def expanded(self, tree: exp.Expr) -> exp.Expr:
        """The query with the queries of views in their places."""
        if not any(self._may_mean(node) for node in tree.find_all(exp.Table)):
            return tree
        if (known := self._put_in.get(id(tree))) is not None:
            return known[1]
        try:
            found = self._expanded(tree)
        except RecursionError:
            raise syntax.too_complex() from None
        if sum(1 for _ in islice(found.walk(), _SHORT)) < _SHORT:
            while len(self._put_in) >= _KEPT:
                self._put_in.pop(next(iter(self._put_in)))
            self._put_in[id(tree)] = tree, found
        return found

    def _may_mean(self, node: exp.Table) -> bool:
        return node.name in self.by_name or node.name.lower() in self.by_name

    def _expanded(self, tree: exp.Expr) -> exp.Expr:
        found = tree.copy()
        names.fold(found)
        meant = [(node, view) for node in found.find_all(exp.Table) if (view := self._meant(node)) is not None]
        size = sum(1 for _ in found.walk()) + sum(self._size(view, {}) for _, view in meant)
        if size > guard.MOST_NODES:
            raise PgError("54000", "the statement is too long with the queries of its views")
        for node, view in meant:
            self._put(node, view)
        guard.check(found)
        return found

    def _meant(self, node: exp.Table) -> View | None:
        if not isinstance(node.this, exp.Identifier) or node.args.get("catalog"):
            return None
        if (schema := node.text("db")) and schema not in _SCHEMAS:
            return None
        return self.by_name.get(node.name) if schema or names.visible(node) is None else None

    def _size(self, view: View, known: dict[str, int]) -> int:
        """Nodes, with those of the views in it: views of views may double it at every step."""
        if view.name not in known:
            tree = view.tree()
            inner = [self.by_name[node.name] for node in tree.find_all(exp.Table) if node.text("db") == TEMPORARY]
            known[view.name] = sum(1 for _ in tree.walk()) + sum(self._size(each, known) for each in inner)
        return known[view.name]

    def _put(self, node: exp.Table, view: View) -> None:
        versions.refuse(node, "temporary view")
        tree = view.tree()
        for inner in [each for each in tree.find_all(exp.Table) if each.text("db") == TEMPORARY]:
            self._put(inner, self.by_name[inner.name])
        given, alias = [exp.to_identifier(each, quoted=True) for each in view.columns], node.args.get("alias")
        found = _subquery(tree, exp.TableAlias(this=exp.to_identifier(view.name, quoted=True), columns=given))
        if alias is not None and given:
            found = _subquery(exp.Select(expressions=[exp.Star()]).from_(found, copy=False), alias)
        elif alias is not None:
            found.set("alias", alias.copy())
        for part in ("joins", "laterals"):
            found.set(part, node.args.get(part))
        node.replace(found)

    # Changes

    def with_one(self, statement: CreateView, fields: Sequence[Field], scope: names.Scope) -> Views:
        name, columns, query = statement.name, statement.columns, statement.query.parsed
        if name in self.by_name and not statement.replace:
            raise PgError("42P07", f'relation "{name}" already exists')
        fields = _named(fields, columns)
        made = View(name, columns, statement.query.text, query, self._tables(query, scope), fields)
        query.forget()
        after = Views({**self.by_name, name: made})
        if name in after._below(made):
            raise PgError("42P17", f'infinite recursion detected in rules for relation "{name}"')
        if after._size(made, {}) > guard.MOST_NODES:
            raise PgError("54000", "the query is too long with those of the views in it")
        if len(after.by_name) > _MOST or sum(len(each.text) for each in after) > _LONGEST:
            raise PgError(
                "53400",
                f"a connection has at most {_MOST} temporary views, with {_LONGEST} characters",
                hint="DROP VIEW those that are not needed, or DISCARD TEMP.",
            )
        return after

    def _tables(self, query: Parsed, scope: names.Scope) -> tuple[str | None, ...]:
        found: list[str | None] = []
        for node in _prepared(query).find_all(exp.Table):
            if self._meant(node) is not None:
                found.append(TEMPORARY)
            elif not isinstance(node.this, exp.Identifier) or node.args.get("db") or names.visible(node) is not None:
                found.append(None)
            else:
                found.append(scope.find(node).schema)
        return tuple(found)

    def _below(self, view: View) -> set[str]:
        """The names of the views that it reads, and that these read."""
        found: set[str] = set()
        waiting = [*view.reads]
        while waiting:
            if (name := waiting.pop()) not in found:
                found.add(name)
                waiting += self.by_name[name].reads
        return found

    def has(self, schema: str | None, name: str) -> bool:
        return schema in (None, *_SCHEMAS) and name in self.by_name

    def without(self, dropped: set[str], *, cascade: bool) -> Views:
        for each in self if dropped else ():
            if each.name in dropped or not (needed := sorted(self._below(each) & dropped)):
                continue
            if not cascade:
                raise PgError(
                    "2BP01",
                    f"cannot drop view {needed[0]} because other objects depend on it",
                    detail=f"view {each.name} depends on view {needed[0]}",
                    hint="Use DROP ... CASCADE to drop the dependent objects too.",
                )
            dropped = dropped | {each.name}
        return Views({name: each for name, each in self.by_name.items() if name not in dropped})


def _subquery(tree: exp.Expr, alias: exp.TableAlias) -> exp.Subquery:
    return exp.Subquery(this=tree, alias=alias.copy())


def _named(fields: Sequence[Field], given: Sequence[str]) -> tuple[Field, ...]:
    if len(given) > len(fields):
        raise PgError("42601", "CREATE VIEW specifies more column names than columns")
    found = tuple(replace(each, name=given[at] if at < len(given) else each.name) for at, each in enumerate(fields))
    known: set[str] = set()
    for each in found:
        if each.name in known:
            raise PgError("42701", f'column "{each.name}" specified more than once')
        known.add(each.name)
    return found

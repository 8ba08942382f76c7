"""Refs, commits, publish, revert and restore against a model simple enough to be believed.

In the model a commit is a node with a parent and a dictionary, a branch is a name for a node, and nothing is clever.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mere.errors import LakeConflict, LakeError
from mere.lake.lake import Lake
from mere.lake.log.commits import Key, Space
from tests.lake.foreign import Foreign

State = dict[str, str]
TABLES = ["a.t", "a.u", "b.v"]
BRANCHES = ["dev", "fix", "try"]


@dataclass(frozen=True)
class Node:
    parent: Node | None
    state: State

    def line(self) -> list[Node]:
        """From this node to the root."""
        return [self, *(self.parent.line() if self.parent else [])]


class LakeAgainstModel(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="mere-model-")
        self.lake = Lake.create(Path(self.folder, "lake"))
        self.engine = Foreign(self.lake)
        self.heads: dict[str, Node] = {"main": Node(None, {})}
        self.parents: dict[str, str] = {}
        self.tags: dict[str, Node] = {}
        self.commits: dict[str, Node] = {self.lake.resolve("main").commit.id: self.heads["main"]}

    def teardown(self) -> None:
        if hasattr(self, "lake"):
            self.lake.close()
            shutil.rmtree(self.folder)

    def advance(self, branch: str, state: State) -> None:
        self.heads[branch] = Node(self.heads[branch], {name: value for name, value in state.items() if value})
        self.commits[self.lake.resolve(branch).commit.id] = self.heads[branch]

    @rule(data=st.data(), table=st.sampled_from(TABLES))
    def write(self, data: st.DataObject, table: str) -> None:
        branch = data.draw(st.sampled_from(sorted(self.heads)))
        pointer = self.engine.append(branch, table)
        self.advance(branch, {**self.heads[branch].state, table: pointer})

    @rule(data=st.data(), table=st.sampled_from(TABLES), to=st.sampled_from(TABLES))
    def rename(self, data: st.DataObject, table: str, to: str) -> None:
        branch = data.draw(st.sampled_from(sorted(self.heads)))
        state = self.heads[branch].state
        if table in state and to not in state:
            self.engine.rename(branch, table, to)
            self.advance(branch, {**state, table: "", to: state[table]})

    @rule(data=st.data(), table=st.sampled_from(TABLES))
    def drop(self, data: st.DataObject, table: str) -> None:
        branch = data.draw(st.sampled_from(sorted(self.heads)))
        if table in self.heads[branch].state:
            self.lake.drop(table, on=branch)
            self.advance(branch, {**self.heads[branch].state, table: ""})

    @rule(data=st.data(), name=st.sampled_from(BRANCHES))
    def fork(self, data: st.DataObject, name: str) -> None:
        if name in self.heads:
            return
        origin = data.draw(st.sampled_from(sorted(self.heads) + sorted(self.tags) + list(self.commits)))
        self.lake.branch(name, origin)
        self.heads[name] = self.node(origin)
        self.parents[name] = origin if origin in self.heads else "main"

    def node(self, ref: str) -> Node:
        return self.heads.get(ref) or self.tags.get(ref) or self.commits[ref]

    @rule(data=st.data(), name=st.sampled_from(["v1", "v2"]))
    def tag(self, data: st.DataObject, name: str) -> None:
        if name in self.tags:
            self.lake.delete(name)
        origin = data.draw(st.sampled_from(sorted(self.heads)))
        self.lake.tag(name, origin)
        self.tags[name] = self.heads[origin]

    @precondition(lambda self: self.parents)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.parents)))
        self.lake.delete(name)
        del self.heads[name], self.parents[name]

    @precondition(lambda self: self.parents)
    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        source = data.draw(st.sampled_from(sorted(self.heads)))
        target = data.draw(st.sampled_from([name for name in sorted(self.heads) if name != source]))
        todo, clash, _ = self.merged(source, target)
        mine, standing = self.heads[source].state, self.heads[target].state
        try:
            result = self.lake.publish(source, target)
        except LakeConflict as conflict:
            assert sorted(str(each.key) for each in conflict.conflicts) == sorted(clash) != []
            return
        assert clash == []
        assert sorted(str(change.key) for change in result.changes) == sorted(todo)
        if todo:
            self.advance(target, {**standing, **{table: mine.get(table, "") for table in todo}})
            if self.parents.get(source) == target:
                self.heads[source] = self.heads[target]

    @precondition(lambda self: self.parents)
    @rule(data=st.data())
    def rebase(self, data: st.DataObject) -> None:
        branch = data.draw(st.sampled_from(sorted(self.parents)))
        parent = self.parents[branch]
        if parent not in self.heads:
            return
        todo, clash, seen = self.merged(branch, parent)
        result = self.lake.rebase(branch)
        if seen[-1] is self.heads[parent]:
            assert (result.commit, result.dropped) == (None, ())
            return
        clash += [table for table in todo if table not in clash and self.renamed_with(table, seen) & set(clash)]
        kept = [table for table in todo if table not in clash]
        assert sorted(str(conflict.key) for conflict in result.dropped) == sorted(clash)
        assert sorted(str(change.key) for change in result.kept) == sorted(kept)
        mine = self.heads[branch].state
        self.heads[branch] = self.heads[parent]
        if kept:
            self.advance(branch, {**self.heads[parent].state, **{table: mine.get(table, "") for table in kept}})

    def merged(self, source: str, target: str) -> tuple[list[str], list[str], list[Node]]:
        """What is to be done on the target, what clashes there, and where the source has been since they parted."""
        ours, theirs = self.heads[source].line(), self.heads[target].line()
        base = next(node for node in ours if any(node is other for other in theirs))
        seen = ours[: next(i for i, node in enumerate(ours) if node is base) + 1]
        mine, standing = self.heads[source].state, self.heads[target].state
        changed = [table for table in TABLES if mine.get(table) != base.state.get(table)]
        todo = [table for table in changed if standing.get(table) != mine.get(table)]
        clash = [t for t in changed if standing.get(t) not in {node.state.get(t) for node in seen}]
        clash += [t for t in changed if t not in clash and self.went_back(t, theirs, base, seen)]
        return todo, clash, seen

    @staticmethod
    def renamed_with(table: str, seen: list[Node]) -> set[str]:
        """All names that were renamed into each other, directly or not, with this one among them."""
        group = {table}
        for _ in TABLES:
            for after, before in pairwise(seen):
                for old in before.state.keys() - after.state.keys():
                    for new in after.state.keys() - before.state.keys():
                        if before.state[old] == after.state[new] and {old, new} & group:
                            group |= {old, new}
        return group

    @staticmethod
    def went_back(table: str, theirs: list[Node], base: Node, seen: list[Node]) -> bool:
        """Whether the target left a pointer that the branch has been at for one that the branch had before that."""
        visits = {node.state.get(table): number for number, node in enumerate(reversed(seen))}
        since = theirs[: next(i for i, node in enumerate(theirs) if node is base)][::-1]
        numbers = [visits[node.state.get(table)] for node in since if node.state.get(table) in visits]
        return any(later < earlier for earlier, later in pairwise(numbers))

    @rule(data=st.data())
    def revert(self, data: st.DataObject) -> None:
        branch = data.draw(st.sampled_from(sorted(self.heads)))
        steps = data.draw(st.integers(0, 2))
        line = self.heads[branch].line()
        if steps + 1 >= len(line):
            return
        after, before, now = line[steps].state, line[steps + 1].state, self.heads[branch].state
        touched = [table for table in TABLES if after.get(table) != before.get(table)]
        free = all(now.get(t) in (after.get(t), before.get(t)) for t in touched)
        try:
            made = self.lake.revert(f"{branch}~{steps}", on=branch)
        except LakeConflict:
            assert not free
            return
        except LakeError:
            assert not touched
            return
        assert free
        assert (made is None) == all(now.get(table) == before.get(table) for table in touched)
        if made:
            self.advance(branch, {**now, **{table: before.get(table, "") for table in touched}})

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        branch = data.draw(st.sampled_from(sorted(self.heads)))
        commit = data.draw(st.sampled_from(list(self.commits)))
        state = self.commits[commit].state
        made = self.lake.restore(commit, on=branch)
        assert (made is None) == (state == self.heads[branch].state)
        if made:
            self.advance(branch, state)

    @invariant()
    def every_ref_holds_what_the_model_holds(self) -> None:
        for name, node in {**self.heads, **self.tags}.items():
            assert self.state(name) == node.state
            assert [commit.id for commit in self.lake.store.ancestors(self.lake.resolve(name).commit)] == [
                next(id_ for id_, known in self.commits.items() if known is each) for each in node.line()
            ]

    @invariant()
    def every_commit_holds_what_it_held(self) -> None:
        for id_, node in self.commits.items():
            assert self.state(id_) == node.state

    def state(self, ref: str) -> State:
        entries = self.lake.at(ref).entries
        return {str(key): entry.value for key, entry in entries.items() if key.space is Space.RELATION}


def test_keys_of_tables_and_namespaces_never_meet() -> None:
    assert Key(Space.RELATION, "a", "exists") != Key(Space.PROPERTY, "a", "exists")


LakeAgainstModel.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestLakeAgainstModel = LakeAgainstModel.TestCase

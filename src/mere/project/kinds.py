"""The kinds of models, and one table of what each can do, which all other modules use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

# The columns that an scd2 model has besides those of its query.
HISTORY = VALID_FROM, VALID_TO, IS_CURRENT = "valid_from", "valid_to", "is_current"

# Settings that only some kinds have.
TIME_SETTINGS = ("time_column", "grain", "start", "unfinished", "batch", "context", "null_times")
_LAYOUT = ("partition_by", "sort_by")
_VERSIONS = ("updated_at", "compare", "dump")
SETTINGS_OF_SOME = (*TIME_SETTINGS, *_LAYOUT, "now", "inputs", "latest_by", *_VERSIONS)


class Kind(StrEnum):
    SEED = "seed"  # a CSV file
    FULL = "full"  # the whole table at every build
    INCREMENTAL = "incremental"  # by time: whole windows are overwritten
    APPEND = "append"  # the rows that were added to one input since the last build
    MERGE = "merge"  # one row per key: the keys that changed are built again
    SCD2 = "scd2"  # the history of each key: its versions, and from when to when each of them held
    VIEW = "view"
    SOURCE = "source"  # what comes from outside of the lake

    @property
    def rules(self) -> KindRules:
        return RULES[self]


class KeyCheck(Enum):
    """The rows in which a build looks for a key that stands twice, unless `key_audit` says otherwise."""

    TABLE = auto()
    WINDOWS = auto()  # those that were built
    BUILT = auto()  # the rows that were built: the others keep their keys
    NONE = auto()


@dataclass(frozen=True)
class KindRules:
    """What a model of a kind can do. The defaults are those of a table that is built as a whole."""

    declared: bool = True  # `kind: …` can say it; what a seed and a source is, its file says
    stored: bool = True  # it has rows of its own
    windows: bool = False  # it is written window by window, and needs a `time_column`
    by_key: bool = False  # rows are exchanged by their `key`
    keeps_rows: bool = False  # rows of earlier builds may stay; only then has code for new rows alone a meaning
    rebuilds: bool = True  # all of it can be had again from its inputs, so that it is built anew where that is due
    quarantines: bool = True  # rules may put its rows aside
    needs_key: str = ""  # why it cannot be without a `key`
    key_check: KeyCheck = KeyCheck.TABLE
    adds: tuple[str, ...] = ()  # columns that the table has besides those of the query
    adds_to_key: tuple[str, ...] = ()  # those of them that make a row unique, together with the key
    settings: tuple[str, ...] = (*_LAYOUT, "now", "inputs")  # of those that only some kinds have
    inputs: tuple[str, ...] = ()  # how an input may be read, besides as a whole
    no_now: tuple[str, str] | None = None  # why it does not know what time it is, and what to do instead


RULES: Mapping[Kind, KindRules] = {
    Kind.SEED: KindRules(declared=False),
    Kind.FULL: KindRules(settings=(*_LAYOUT, "now")),
    Kind.INCREMENTAL: KindRules(
        windows=True,
        keeps_rows=True,
        key_check=KeyCheck.WINDOWS,
        settings=(*TIME_SETTINGS, *_LAYOUT, "now", "inputs"),
        inputs=("time", "on_change"),
    ),
    Kind.APPEND: KindRules(
        keeps_rows=True,
        rebuilds=False,
        key_check=KeyCheck.NONE,
        inputs=("time", "new_rows", "changes", "on_change"),
    ),
    Kind.MERGE: KindRules(
        by_key=True,
        keeps_rows=True,
        needs_key="a merge model needs a `key`: the columns by which its rows are told apart",
        key_check=KeyCheck.BUILT,
        settings=(*_LAYOUT, "now", "inputs", "latest_by"),
        inputs=("key", "changes", "on_change"),
    ),
    Kind.SCD2: KindRules(
        by_key=True,
        keeps_rows=True,
        rebuilds=False,
        quarantines=False,
        needs_key="an scd2 model needs a `key`: the columns that say whose versions its rows are",
        adds=HISTORY,
        adds_to_key=(VALID_FROM,),
        settings=(*_LAYOUT, "inputs", *_VERSIONS),
        inputs=("key",),
        no_now=(
            "an scd2 model cannot {}: its history would depend on when it is built",
            "Add it where the history is read.",
        ),
    ),
    Kind.VIEW: KindRules(
        stored=False,
        rebuilds=False,
        quarantines=False,
        settings=(),
        no_now=("a view cannot {}: nothing binds it when it is read", "Write `kind: full`."),
    ),
    Kind.SOURCE: KindRules(declared=False, keeps_rows=True, rebuilds=False),
}

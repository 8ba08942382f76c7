"""The tables and triggers of a lake on SQLite: the Iceberg SQL catalog, untouched, and mere's own beside it.

`iceberg_tables` is where engines look. The triggers on it are the guards: they refuse what would hurt another ref,
and they make a commit of every pointer an engine moves, inside the engine's own transaction. mere's own writes put a
row into `mere_writer` for the length of their transaction, which no other connection can ever see, and journal
themselves.

Messages of RAISE must be literals: an expression there needs an SQLite newer than many Pythons carry.
"""

from __future__ import annotations

NOW = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"

# The V1 schema of the Iceberg SQL catalog, as engines make it themselves.
CATALOG = """
CREATE TABLE IF NOT EXISTS iceberg_tables (
    catalog_name VARCHAR(255) NOT NULL,
    table_namespace VARCHAR(255) NOT NULL,
    table_name VARCHAR(255) NOT NULL,
    metadata_location VARCHAR(1000),
    previous_metadata_location VARCHAR(1000),
    iceberg_type VARCHAR(5),
    PRIMARY KEY (catalog_name, table_namespace, table_name)
);
CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
    catalog_name VARCHAR(255) NOT NULL,
    namespace VARCHAR(255) NOT NULL,
    property_key VARCHAR(255) NOT NULL,
    property_value VARCHAR(1000),
    PRIMARY KEY (catalog_name, namespace, property_key)
);
"""

# A line is an unbroken run of commits on one branch; `base` is the commit that it was forked from. A branch that
# starts again (it followed its publish) gets a new line, so the history of a commit never changes.
_MERE = """
CREATE TABLE mere_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE mere_writer (pid INTEGER NOT NULL);
CREATE TABLE mere_lines (
    line INTEGER PRIMARY KEY AUTOINCREMENT,
    base INTEGER
);
CREATE TABLE mere_refs (
    name TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('branch', 'tag', 'run', 'alias')),
    line INTEGER NOT NULL,
    head INTEGER NOT NULL,
    parent TEXT,
    created_at TEXT NOT NULL,
    created_by TEXT
);
CREATE TABLE mere_commits (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    line INTEGER NOT NULL,
    parent INTEGER,
    kind TEXT NOT NULL,
    at TEXT NOT NULL,
    author TEXT,
    message TEXT,
    run TEXT,
    source TEXT,
    expired INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX mere_commits_line ON mere_commits (line, seq);
CREATE TABLE mere_changes (
    seq INTEGER NOT NULL,
    line INTEGER NOT NULL,
    space TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    old_kind TEXT,
    old TEXT,
    new_kind TEXT,
    new TEXT,
    rows_added INTEGER,
    rows_removed INTEGER,
    files_added INTEGER,
    files_removed INTEGER,
    PRIMARY KEY (seq, space, namespace, name)
) WITHOUT ROWID;
CREATE INDEX mere_changes_line ON mere_changes (line, space, namespace, name, seq);
CREATE TABLE mere_leases (
    target TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    holder TEXT NOT NULL,
    acquired_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    PRIMARY KEY (target, namespace, name)
);
CREATE TABLE mere_doomed (
    location TEXT PRIMARY KEY,
    since TEXT NOT NULL
);
"""

_FOREIGN = "WHEN NOT EXISTS (SELECT 1 FROM mere_writer)"


def _refuse(message: str, condition: str) -> str:
    return f"SELECT RAISE(ABORT, 'mere: {message}') WHERE {condition};"


def _writable(ref: str) -> str:
    return _refuse(
        "no branch of this lake has that name; make it with: mere branch create",
        f"NOT EXISTS (SELECT 1 FROM mere_refs WHERE name = {ref})",
    ) + _refuse(
        "tags and commits are read-only; write to a branch",
        f"EXISTS (SELECT 1 FROM mere_refs WHERE name = {ref} AND kind NOT IN ('branch', 'run'))",
    )


def _journal(ref: str, *changes: str) -> str:
    """A commit of kind `write` on the ref, with these changes (space, namespace, name, old kind and value, new)."""
    inserts = "".join(
        "INSERT INTO mere_changes (seq, line, space, namespace, name, old_kind, old, new_kind, new)"
        f" SELECT head, line, {change} FROM mere_refs WHERE name = {ref};"
        for change in changes
    )
    return f"""
    INSERT INTO mere_commits (id, line, parent, kind, at)
        SELECT lower(hex(randomblob(8))), r.line, r.head, 'write', max({NOW}, p.at)
        FROM mere_refs r JOIN mere_commits p ON p.seq = r.head WHERE r.name = {ref};
    UPDATE mere_refs SET head = (SELECT max(seq) FROM mere_commits) WHERE name = {ref};
    {inserts}"""


def _relation(old: bool, new: bool, row: str) -> str:
    key = f"'relation', {row}.table_namespace, {row}.table_name"
    before = "lower(coalesce(OLD.iceberg_type, 'TABLE')), OLD.metadata_location" if old else "NULL, NULL"
    after = "lower(coalesce(NEW.iceberg_type, 'TABLE')), NEW.metadata_location" if new else "NULL, NULL"
    return f"{key}, {before}, {after}"


def _property(old: bool, new: bool, row: str) -> str:
    key = f"'property', {row}.namespace, {row}.property_key"
    before = "'property', OLD.property_value" if old else "NULL, NULL"
    after = "'property', NEW.property_value" if new else "NULL, NULL"
    return f"{key}, {before}, {after}"


_SAME_KEY = "(OLD.table_namespace, OLD.table_name) = (NEW.table_namespace, NEW.table_name)"


def _one_ref(table: str) -> str:
    return f"""
CREATE TRIGGER {table}_one_ref BEFORE UPDATE OF catalog_name ON {table}
WHEN OLD.catalog_name <> NEW.catalog_name BEGIN
    {_refuse("a row cannot move from one ref to another", "1")}
END;
"""


_SOUND = _refuse(
    "a row must point to a metadata file",
    "NEW.metadata_location IS NULL OR coalesce(NEW.iceberg_type, 'TABLE') NOT IN ('TABLE', 'VIEW')",
)
_SOUND_PROPERTY = _refuse("a property must have a value", "NEW.property_value IS NULL")

_TRIGGERS = f"""
CREATE TRIGGER mere_tables_insert AFTER INSERT ON iceberg_tables {_FOREIGN} BEGIN
    {_writable("NEW.catalog_name")}
    {_SOUND}
    {_journal("NEW.catalog_name", _relation(False, True, "NEW"))}
END;
CREATE TRIGGER mere_tables_update AFTER UPDATE ON iceberg_tables
WHEN NOT EXISTS (SELECT 1 FROM mere_writer) AND {_SAME_KEY}
    AND (OLD.metadata_location IS NOT NEW.metadata_location OR OLD.iceberg_type IS NOT NEW.iceberg_type) BEGIN
    {_writable("NEW.catalog_name")}
    {_SOUND}
    {_journal("NEW.catalog_name", _relation(True, True, "NEW"))}
END;
CREATE TRIGGER mere_tables_rename AFTER UPDATE ON iceberg_tables
WHEN NOT EXISTS (SELECT 1 FROM mere_writer) AND NOT {_SAME_KEY} BEGIN
    {_writable("NEW.catalog_name")}
    {_journal("NEW.catalog_name", _relation(True, False, "OLD"), _relation(False, True, "NEW"))}
END;
CREATE TRIGGER mere_tables_delete BEFORE DELETE ON iceberg_tables {_FOREIGN} BEGIN
    {_refuse("other refs may need these files, so engines do not drop; use: mere drop", "1")}
END;
CREATE TRIGGER mere_properties_insert AFTER INSERT ON iceberg_namespace_properties {_FOREIGN} BEGIN
    {_writable("NEW.catalog_name")}
    {_SOUND_PROPERTY}
    {_journal("NEW.catalog_name", _property(False, True, "NEW"))}
END;
CREATE TRIGGER mere_properties_update AFTER UPDATE ON iceberg_namespace_properties
WHEN NOT EXISTS (SELECT 1 FROM mere_writer) AND OLD.property_value IS NOT NEW.property_value BEGIN
    {_writable("NEW.catalog_name")}
    {_SOUND_PROPERTY}
    {_journal("NEW.catalog_name", _property(True, True, "NEW"))}
END;
CREATE TRIGGER mere_properties_delete AFTER DELETE ON iceberg_namespace_properties {_FOREIGN} BEGIN
    {_writable("OLD.catalog_name")}
    {_journal("OLD.catalog_name", _property(True, False, "OLD"))}
END;
CREATE TRIGGER mere_properties_rename BEFORE UPDATE OF namespace, property_key ON iceberg_namespace_properties
WHEN (OLD.namespace, OLD.property_key) <> (NEW.namespace, NEW.property_key) BEGIN
    {_refuse("a property keeps its name", "1")}
END;
{_one_ref("iceberg_tables")}
{_one_ref("iceberg_namespace_properties")}
"""

_RUNS = """
CREATE TABLE mere_runs (
    id TEXT PRIMARY KEY,
    target TEXT NOT NULL,
    branch TEXT NOT NULL,
    status TEXT NOT NULL,
    author TEXT NOT NULL,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    beat_at TEXT NOT NULL,
    about TEXT NOT NULL
);
CREATE INDEX mere_runs_started ON mere_runs (started_at);
"""

_RECEIPTS = """
CREATE TABLE mere_receipts (
    user_name TEXT NOT NULL,
    operation TEXT NOT NULL,
    request_key TEXT NOT NULL,
    status INTEGER NOT NULL,
    pointer TEXT,
    content TEXT NOT NULL,
    request TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (user_name, operation, request_key)
);
CREATE INDEX mere_receipts_at ON mere_receipts (at);
"""

# One script a version; a database at version N has run the first N. Never edit one that was released.
MIGRATIONS: tuple[str, ...] = (CATALOG + _MERE + _TRIGGERS, _RUNS, _RECEIPTS)
READABLE = 1  # the oldest version that can be read as it is, where it cannot be written: what came later was added

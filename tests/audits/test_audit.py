"""Audits as they are written: what is read from YAML, and what is said of mistakes."""

from __future__ import annotations

import pickle
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from mere.audits.audit import Allowed, Audit, Severity, load_customs, parse
from mere.audits.rules import AcceptedValues, Freshness, MaxChange, NotNull, Relationships
from mere.entries import parse as yaml
from mere.errors import ConfigError
from mere.names import TableName


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "audits").mkdir()
    write(
        tmp_path,
        "no_gaps",
        "-- severity: warn\n-- defaults: {step: 1}\n"
        "WITH days AS (SELECT {{ column }} AS day FROM {{ this }})\n"
        "SELECT * FROM days JOIN raw.calendar c ON c.day = days.day + {{ step }} WHERE EXISTS (FROM silver.x)",
    )
    return tmp_path


def write(folder: Path, name: str, text: str) -> None:
    (folder / "audits" / f"{name}.sql").write_text(text)


def audit(folder: Path, text: str) -> Audit:
    return parse(yaml(text, Path("models/gold/x.sql"), first_line=3), load_customs(folder))


def test_rules_and_options_are_read(folder: Path) -> None:
    assert audit(folder, "not_null: id").rule == NotNull(("id",))
    found = audit(folder, "not_null: [id, amount]\nwhere: day > '2024'\nallow: 0.5 %\nseverity: warn\nname: Known")
    assert (found.where, found.allow, found.severity) == ("day > '2024'", Allowed(Decimal("0.5"), True), Severity.WARN)
    assert (found.name, found.place) == ("Known", "models/gold/x.sql:3")
    assert audit(folder, 'accepted_values: {column: a, values: [1, x, 2024-01-01, true, "o\'n\\\\e"]}').rule == (
        AcceptedValues("a", ("1", "'x'", "DATE '2024-01-01'", "true", "'o\\'n\\\\e'"))
    )
    assert audit(folder, "relationships: {column: city, to: raw.cities}").rule == (
        Relationships(("city",), TableName("raw", "cities"), ("city",))
    )
    assert audit(folder, "freshness: {column: at, within: 36 hours}").rule == Freshness("at", timedelta(hours=36))
    assert audit(folder, "max_change: 20%").rule == MaxChange(Allowed(Decimal(20), True))


def test_an_audit_says_what_it_reads_besides_its_table(folder: Path) -> None:
    assert audit(folder, "not_null: id").reads == ()
    assert audit(folder, "relationships: {column: city, to: raw.cities}").reads == (TableName("raw", "cities"),)
    custom = audit(folder, "no_gaps: day")
    assert set(custom.reads) == {TableName("raw", "calendar"), TableName("silver", "x")}
    assert custom.severity is Severity.WARN
    assert audit(folder, "no_gaps: day\nseverity: error").severity is Severity.ERROR


def test_an_audit_can_be_kept(folder: Path) -> None:
    found = audit(folder, "no_gaps: {column: day, step: 7}\nallow: 1%")
    assert pickle.loads(pickle.dumps(found)) == found


MISTAKES = {
    "not_nul: [id]": "there is no audit `not_nul`\nDid you mean `not_null`?",
    "not_null: [id]\nseverty: warn": "Did you mean `severity`?",
    "not_null: [id]\nseverity: warning": "`severity` cannot be `warning`\nDid you mean `warn`?",
    "not_null: [id]\nunique: [id]": "an audit has 2 rules: not_null, unique",
    "severity: warn": "an audit has no rule",
    "no_gaps": "an audit must map one rule to its options",
    "not_null: []": "`not_null` names no column",
    "accepted_values: {column: a, value: [1]}": "unknown key `value` in `accepted_values`\nDid you mean `values`?",
    "accepted_values: {column: a, values: [1, null]}": "NULL is always accepted",
    "accepted_values: {column: a, values: []}": "`values` is empty",
    "relationships: {column: a}": "`relationships` needs `to`",
    "relationships: {column: a, to: cities}": "'cities' is not a table name.",
    "relationships: {column: [a, b], to: raw.c, key: a}": "2 columns cannot point to a key of 1",
    "assert: revenue >=": "`revenue >=` is not a condition in SQL: ",
    "assert: a > 1) or (b > 1": "is not a condition in SQL",
    "assert: a > 1; select 1": "is not a condition in SQL",
    "assert: a > 1 -- yes": "a condition cannot have an SQL comment in it",
    "assert: a in (select id from raw.b)": "a condition cannot have a query in it",
    "row_count: {}": "`row_count` needs `min`, `max` or both",
    "row_count: {min: 3, max: 2}": "`row_count` has a `min` above its `max`",
    "row_count: {min: -3}": "`row_count.min` must be a whole number",
    "row_count: {min: 1}\nallow: 5": "`allow` has no effect on row_count",
    "freshness: {column: a, within: a while}": "`within` cannot be `a while`\nWrite for example `2 days`",
    "max_change: much": "`max_change` cannot be `much`",
    "max_change: 5%\nwhere: a > 1": "`where` has no effect on max_change",
    "unique: id\nquarantine: true": "unique cannot quarantine: whether a row is bad does not depend on that row alone",
    "row_count: {min: 1}\nquarantine: true": "These can: not_null, accepted_values, relationships, assert.",
    "no_gaps: a\nquarantine: true": "no_gaps cannot quarantine",
    "not_null: a\nquarantine: maybe": "`quarantine` must be `true` or `false`",
    "not_null: a\nmax_bad: 1%": "`max_bad` has no effect without `quarantine: true`",
    "not_null: a\nquarantine: true\nallow: 1%": "`allow` has no effect on a rule that quarantines",
    "not_null: a\nquarantine: true\nseverity: warn": "`severity` has no effect on a rule that quarantines",
    "not_null: a\nquarantine: true\nmax_bad: few": "`max_bad` cannot be `few`",
    "not_null: a\nquarantine: true\nmax_bad: {share: 1%}": "`max_bad` needs a `share` and a `floor`",
    "not_null: a\nquarantine: true\nmax_bad: {share: 1%, floor: 2%}": "`floor` is a number of rows",
    "no_gaps: {}": "audit no_gaps needs `column`",
    "no_gaps: {column: a, stepp: 1}": "unknown key `stepp` in `no_gaps`\nDid you mean `step`?",
    "no_gaps: {column: a, step: '1 +'}": "audits/no_gaps.sql, filled in, is not SQL: ",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_named_with_its_place(text: str, folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        audit(folder, text)
    assert MISTAKES[text] in str(caught.value)
    assert str(caught.value).startswith("models/gold/x.sql:")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("unique", "SELECT * FROM {{ this }}", "audits/unique.sql: unique is an audit of mere's own"),
        ("a", "SELECT * FROM gold.a", "audits/a.sql: the query does not read the audited table"),
        ("a", "-- x: 1\nSELECT * FROM {{ this }}", "audits/a.sql:1: unknown key `x`"),
        ("a", "-- defaults: {q: 1}\nSELECT * FROM {{ this }}", "audits/a.sql:1: unknown key `q` in `defaults`"),
        ("a", "-- severity: warn\nSELECT *\nFROM {{ this }", "audits/a.sql:3: not valid Jinja"),
    ],
)
def test_a_custom_audit_that_is_wrong_is_named(name: str, text: str, said: str, folder: Path) -> None:
    write(folder, name, text)
    with pytest.raises(ConfigError) as caught:
        load_customs(folder)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("DELETE FROM {{ this }}", "is not a query"),
        ("SELECT * FROM {{ this }} JOIN cities USING (id)", "reads `cities`, a name without a schema"),
        ("SELECT 1 FROM {{ this }}; SELECT 2", "is not one SQL statement"),
    ],
)
def test_a_custom_audit_is_one_query_of_named_tables(sql: str, said: str, folder: Path) -> None:
    write(folder, "a", sql)
    with pytest.raises(ConfigError) as caught:
        audit(folder, "a: {}")
    assert said in str(caught.value)


def test_a_project_without_custom_audits_has_none(tmp_path: Path) -> None:
    assert load_customs(tmp_path) == {}

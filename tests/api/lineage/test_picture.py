"""Lineage as a picture."""

from __future__ import annotations

from mere.api.lineage.picture import of_columns, page
from mere.names import TableName
from mere.project.lineage import ColumnName


def test_what_is_filled_into_the_page_is_not_filled_again() -> None:
    assert '">{{edges}}</text>' in page(of_columns("t", [ColumnName(TableName("s", "t"), "{{edges}}")], []))

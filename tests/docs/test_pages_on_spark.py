"""What is shown, happens: the pages on which Spark works."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.conftest import Follow
from tests.docs.pages import page_id, shown


@pytest.mark.parametrize("page", shown(with_spark=True), ids=page_id)
def test_what_a_page_shows_happens(page: Path, follow: Follow, warm_jvm: None) -> None:
    follow(page)

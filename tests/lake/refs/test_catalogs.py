"""A ref as a Spark catalog over HTTP."""

from __future__ import annotations

import pytest

from mere.lake.refs.engines import by_rest
from mere.sparkconfig import RestSettings


@pytest.mark.parametrize("token", [None, "mere_abc"])
def test_all_catalogs_of_a_jvm_show_who_they_are_in_one_way(token: str | None) -> None:
    """Iceberg signs requests to S3 for all of them as the first one says, so that others would be nobody there."""
    properties = by_rest("dev", RestSettings("http://127.0.0.1:1/iceberg", token=token))
    assert properties["rest.auth.type"] == "oauth2"
    assert properties["oauth2-server-uri"] == "http://127.0.0.1:1/iceberg/v1/oauth/tokens"
    assert properties.get("token") == token

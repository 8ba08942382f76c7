"""The description of the API: a valid document, with every route in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mere.serve.api.openapi import document
from mere.serve.api.verbs import VERBS
from tests.serve.api.api import Api

# What OpenAPI 3.1 demands of the parts of a document that are used here: members that must be, and that may be.
_PARTS: dict[str, tuple[set[str], set[str]]] = {
    "document": ({"openapi", "info", "paths"}, {"servers", "security", "components"}),
    "operation": ({"operationId", "responses"}, {"summary", "parameters", "requestBody"}),
    "parameter": ({"name", "in", "schema"}, {"required"}),
    "response": ({"description", "content"}, set()),
}
_KEYWORDS = {
    "type", "format", "enum", "items", "properties", "required", "additionalProperties", "description", "default",
    "minimum", "maximum", "maxLength", "anyOf", "$ref",
}  # fmt: skip


def fits(part: str, value: dict[str, Any]) -> bool:
    required, optional = _PARTS[part]
    return required <= value.keys() <= required | optional


def schemas(value: Any) -> Iterator[dict[str, Any]]:
    """All schemas of a document."""
    if isinstance(value, list):
        for each in value:
            yield from schemas(each)
    if isinstance(value, dict):
        for name, each in value.items():
            if name == "schema":
                yield from inside(each)
            elif name == "schemas":
                for schema in each.values():
                    yield from inside(schema)
            else:
                yield from schemas(each)


def inside(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    below = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    below += [each for each in (schema.get("items"), schema.get("additionalProperties")) if isinstance(each, dict)]
    for each in below:
        yield from inside(each)


def test_the_document_is_valid() -> None:
    found = document()
    assert fits("document", found)
    assert found["openapi"].startswith("3.1.")
    operations = [each for path in found["paths"].values() for each in path.values()]
    assert len({each["operationId"] for each in operations}) == len(operations) == len(VERBS)
    for path, verbs in found["paths"].items():
        for operation in verbs.values():
            assert fits("operation", operation), path
            assert operation["summary"], path
            assert operation["summary"].isprintable(), path  # in one line
            parameters = operation.get("parameters", [])
            assert all(fits("parameter", each) for each in parameters)
            in_path = [each["name"] for each in parameters if each["in"] == "path"]
            assert in_path == re.findall(r"\{(\w+)\}", path)
            for response in operation["responses"].values():
                assert "$ref" in response or fits("response", response)
    names = found["components"]["schemas"]
    for schema in schemas(found):
        assert schema.keys() <= _KEYWORDS
        if "$ref" in schema:
            assert schema["$ref"].removeprefix("#/components/schemas/") in names
        assert set(schema.get("required", ())) <= schema.get("properties", {}).keys()


def test_it_is_served_as_it_is_made(api: Api) -> None:
    assert api.get("openapi.json") == document()


def test_every_route_that_is_described_is_there(api: Api) -> None:
    """A route answers in its own words; where there is none, the frame says so."""
    for path, verbs in document()["paths"].items():
        for method in verbs:
            asked = api.uri + re.sub(r"\{\w+\}", "nothing", path)
            answer = api.rest.session.request(method, asked, timeout=120, data=b"[]")
            assert f"There is no {method.upper()} " not in answer.text, (method, path)

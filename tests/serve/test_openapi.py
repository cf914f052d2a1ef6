"""The OpenAPI document: requests made from it find no server error, and answers match it."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import CHECKS, load_all_checks
from starlette.testclient import TestClient

from glassformer.serve.app import ENDPOINTS
from glassformer.serve.models import Models
from glassformer.serve.openapi import document, page
from glassformer.serve.server import Server

EXAMPLES = 12  # requests of each operation
load_all_checks()
PROMISES = [CHECKS.get_one(name) for name in (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_schema_conformance",
)]  # fmt: skip


@pytest.fixture(scope="module")
def schema(models: Models, serving: Any) -> Iterator[Any]:
    with serving(Server(models)) as address:
        yield schemathesis.openapi.from_url(f"{address}/openapi.json")


def test_random_requests_of_every_operation_are_answered_as_promised(schema: Any) -> None:
    tried = []
    for operation in schema.get_all_operations():
        made = operation.ok()

        @settings(
            max_examples=EXAMPLES, derandomize=True, database=None, deadline=None,
            phases=[Phase.generate], suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(case=made.as_strategy())
        def ask(case: Any) -> None:
            case.call_and_validate(checks=PROMISES)

        ask()
        tried.append(made.path)
    assert set(tried) == {one.path for one in ENDPOINTS}


def test_the_document_names_every_endpoint_and_every_error(client: TestClient) -> None:
    content = client.get("/openapi.json").json()
    assert content == document(ENDPOINTS)
    for one in ENDPOINTS:
        operation = content["paths"][one.path][one.method.lower()]
        assert {"200", "413", "422", "429", "503"} <= operation["responses"].keys()


def test_the_page_of_the_api_lists_every_endpoint_and_needs_no_other_site(
    client: TestClient,
) -> None:
    html = client.get("/docs").text
    for one in ENDPOINTS:
        assert f"{one.method} {one.path}" in html
    assert "<script" not in html and "//" not in html.replace("<!DOCTYPE", "")


def test_markup_in_a_description_is_shown_as_text() -> None:
    content = document(ENDPOINTS)
    content["paths"]["/translate"]["post"]["summary"] = "<img src=x>"
    assert "<img" not in page(content)

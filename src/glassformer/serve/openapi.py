"""The OpenAPI document, and the page that shows it."""

from collections.abc import Sequence
from html import escape
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, TypeAdapter

from glassformer import __version__
from glassformer.serve import schemas
from glassformer.serve.endpoint import FORM, Endpoint

REFERENCE = "#/components/schemas/{model}"
JSON = "application/json"
STATUSES = (401, 403, 404, 408, 413, 422, 429, 500, 501, 503)


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of these endpoints."""
    models: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for one in endpoints:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, models)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Glassformer",
            "version": __version__,
            "description": "Translation, text generation, classification and traces, served from "
            "this machine.",
        },
        "paths": paths,
        "components": {
            "schemas": dict(sorted(models.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(one: Endpoint, models: dict[str, Any]) -> dict[str, Any]:
    error = schemas.OpenAIError if one.style == "openai" else schemas.Error
    problem = {"content": {JSON: {"schema": _schema(error, models)}}}
    answers: dict[str, Any] = {
        str(status): {"description": HTTPStatus(status).phrase, **problem} for status in STATUSES
    }
    content: dict[str, Any] = {JSON: {"schema": _schema(one.answer, models)}}
    if one.streams:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    operation: dict[str, Any] = {
        "summary": one.summary,
        "operationId": f"{one.method} {one.path}".replace("/", " ").strip().replace(" ", "_"),
        "tags": [one.style],
        "responses": {"200": {"description": "The answer.", "content": content}, **answers},
    }
    if one.body is not None:
        schema = {"schema": _schema(one.body, models)}
        bodies = {JSON: schema, FORM: schema} if one.form else {JSON: schema}
        operation["requestBody"] = {"required": True, "content": bodies}
    if not one.public:
        operation["security"] = [{"token": []}, {}]
    return operation


def _schema(kind: Any, models: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type, and add those that it refers to."""
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    found = adapter.json_schema(ref_template=REFERENCE)
    models |= found.pop("$defs", {})
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        models[kind.__name__] = found
        return {"$ref": REFERENCE.format(model=kind.__name__)}
    return found


def page(content: dict[str, Any]) -> str:
    """Return the document as a plain page, without script."""
    rows = [
        _section(method, path, operation, content["components"]["schemas"])
        for path, operations in content["paths"].items()
        for method, operation in operations.items()
    ]
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<title>Glassformer API</title><link rel="stylesheet" href="/static/style.css"></head>'
        '<body><main class="prose"><h1>Glassformer API</h1>'
        '<p>The same as a document: <a href="/openapi.json">/openapi.json</a>. '
        'The explorer: <a href="/">/</a>.</p>' + "".join(rows) + "</main></body></html>"
    )


def _section(method: str, path: str, operation: dict[str, Any], models: dict[str, Any]) -> str:
    heading = f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
    text = f"<p>{escape(operation['summary'])}</p>"
    body = operation.get("requestBody")
    if body is None:
        return heading + text
    name = body["content"][JSON]["schema"]["$ref"].rpartition("/")[2]
    schema = models[name]
    required = schema.get("required", [])
    fields = "".join(
        f"<tr><th scope='row'><code>{escape(field)}</code></th><td>{escape(_kind(about))}</td>"
        f"<td>{'required' if field in required else escape(_default(about))}</td>"
        f"<td>{escape(about.get('description', ''))}</td></tr>"
        for field, about in schema["properties"].items()
    )
    head = "<tr><th>field</th><th>type</th><th>default</th><th>meaning</th></tr>"
    return f'{heading}{text}<div class="scroll"><table>{head}{fields}</table></div>'


def _kind(about: dict[str, Any]) -> str:
    if "anyOf" in about:
        return " or ".join(_kind(one) for one in about["anyOf"])
    if "enum" in about:
        return " or ".join(map(str, about["enum"]))
    if "$ref" in about:
        return str(about["$ref"].rpartition("/")[2])
    if about.get("type") == "array":
        return f"list of {_kind(about.get('items', {}))}"
    return str(about.get("type", about.get("const", "any")))


def _default(about: dict[str, Any]) -> str:
    return "" if about.get("default") is None else str(about["default"])

"""Host, Origin and token: other sites and clients without the token get no answer."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from starlette.testclient import TestClient

from glassformer.serve.app import application
from glassformer.serve.guard import POLICY, name_of
from glassformer.serve.models import Models
from glassformer.serve.server import Server

TOKEN = "a-token-of-many-characters"


@contextmanager
def guarded(server: Server) -> Iterator[TestClient]:
    with TestClient(application(server), base_url="http://localhost") as found:
        yield found


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8642", "[::1]:8642", "LOCALHOST:1"])
def test_own_names_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "10.0.0.1", "["])
def test_other_names_are_refused(client: TestClient, host: str) -> None:
    """A site that has its name point to this machine sends that name."""
    answer = client.get("/health", headers={"Host": host})
    assert answer.status_code == 403
    assert answer.json()["next"] == (
        "Use the address that it printed, or name this one: --allow-host NAME."
    )


def test_a_server_for_all_addresses_answers_to_numbers_and_named_hosts(models: Models) -> None:
    server = Server(models, hosts=frozenset({"translate.example"}), any_address=True)
    with guarded(server) as client:
        statuses = {
            host: client.get("/health", headers={"Host": host}).status_code
            for host in ("10.1.2.3:80", "[fe80::1]", "translate.example", "evil.example")
        }
    assert [*statuses.values()] == [200, 200, 200, 403]


def test_pages_of_other_sites_are_refused_unless_they_are_named(models: Models) -> None:
    other = {"Origin": "https://page.example"}
    with guarded(Server(models)) as client:
        for origin in ("https://page.example", "null", "http://localhost:1"):
            assert client.get("/health", headers={"Origin": origin}).status_code == 403
        assert client.get("/health", headers={"Origin": "http://localhost"}).status_code == 200
        own = client.get("/health")
        assert "access-control-allow-origin" not in own.headers
    with guarded(Server(models, origins=("https://page.example",))) as client:
        answer = client.get("/health", headers=other)
        assert answer.headers["access-control-allow-origin"] == "https://page.example"
        asked = other | {"Access-Control-Request-Method": "POST"}
        assert client.options("/translate", headers=asked).status_code == 200


def test_without_the_token_there_is_no_answer(models: Models) -> None:
    body = {"q": "a dog", "source": "en", "target": "fr"}
    with guarded(Server(models, token=TOKEN)) as client:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}):
            answer = client.post("/translate", json=body, headers=headers)
            assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
        assert client.post("/translate", json=body | {"api_key": "é"}).status_code == 401
        assert client.post("/translate", json=body | {"api_key": TOKEN}).status_code == 200
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert client.post("/translate", json=body, headers=bearer).status_code == 200
        assert client.get("/v1/models").status_code == 401
        assert client.post("/api/classify", json={"q": "a", "api_key": TOKEN}).status_code == 401
        for public in ("/", "/health", "/languages", "/docs", "/openapi.json"):
            assert client.get(public).status_code == 200


def test_every_answer_has_a_strict_policy(client: TestClient) -> None:
    for path in ("/", "/health", "/nothing", "/docs", "/static/style.css"):
        headers = client.get(path).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
    assert "unsafe" not in POLICY and "'none'" in POLICY


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd"]
)
def test_no_path_leads_out_of_the_static_folder(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_names_are_read_without_port_and_brackets() -> None:
    given = ["a:1", "[::1]:2", "A.", "[::1]", ""]
    assert [name_of(one) for one in given] == ["a", "::1", "a", "::1", ""]

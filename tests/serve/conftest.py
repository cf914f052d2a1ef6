"""Servers of untrained models: in this process, and on a port for real clients."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.testclient import TestClient

from cli.models import write_model
from glassformer.api.import_model import import_model
from glassformer.pipeline import load
from glassformer.serve.app import application
from glassformer.serve.models import Models
from glassformer.serve.server import Server
from interop.foreign_models import write_gguf

KINDS = {
    "toy-translator": "translator",
    "toy-labels": "classifier",
    "toy-text": "language-model",
    "toy-vectors": "embedder",
}
CHAT = "toy-chat"  # a Llama of one layer with a chat template, imported from GGUF


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A checkpoint of each kind of model, by name."""
    place = tmp_path_factory.mktemp("served")
    for name, kind in KINDS.items():
        write_model(place / name, kind)
    write_gguf(place / "tiny.gguf", {})
    import_model(place / "tiny.gguf", output=place / CHAT)
    return {name: place / name for name in (*KINDS, CHAT)}


@pytest.fixture(scope="session")
def models(folders: dict[str, Path]) -> Models:
    return Models([str(folder) for folder in folders.values()], threads=1)


@pytest.fixture
def server(models: Models) -> Server:
    return Server(models)


@pytest.fixture
def client(server: Server) -> Iterator[TestClient]:
    with TestClient(application(server), base_url="http://localhost") as found:
        yield found


@pytest.fixture(scope="session")
def pipelines(folders: dict[str, Path]) -> dict[str, Any]:
    """The same models, called from Python."""
    return {name: load(folder, threads=1) for name, folder in folders.items()}


@contextmanager
def running(server: Server) -> Iterator[str]:
    """Serve on a free port of this machine; yield the address."""
    config = uvicorn.Config(application(server), port=0, log_config=None, access_log=False)
    runs = uvicorn.Server(config)
    thread = threading.Thread(target=runs.run)
    thread.start()
    try:
        until = time.monotonic() + 20
        while not runs.started and time.monotonic() < until:
            time.sleep(0.01)
        assert runs.started
        yield f"http://127.0.0.1:{runs.servers[0].sockets[0].getsockname()[1]}"
    finally:
        runs.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture(scope="session")
def serving() -> Callable[[Server], AbstractContextManager[str]]:
    return running

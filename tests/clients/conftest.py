"""A server to talk to: the ``rawloop`` program with the small model in it, on a port of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from typing import Any, Callable, Iterator

import pytest

# Clients that would look something up on the network when they are imported.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("LITELLM_TELEMETRY", "False")
os.environ.setdefault("OPENAI_API_KEY", "none")
for proxy in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
    os.environ.pop(proxy, None)
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"

FRANCE = "What is the capital of France?"
PARIS = "The capital of France is Paris."
SUM = "What is 12 + 30?"

ADD: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}

#: Every answer that follows it ends soon, also of a model that does not know what is asked.
REVIEW: dict[str, Any] = {
    "type": "object",
    "properties": {"sentiment": {"enum": ["positive", "negative"]}, "stars": {"enum": [1, 2, 3, 4, 5]}},
    "required": ["sentiment", "stars"],
    "additionalProperties": False,
}


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a server."""
    binary = os.environ.get("RAWLOOP_BIN")
    assert binary, "RAWLOOP_BIN does not name the program to serve with"
    process = subprocess.Popen(
        [binary, "serve", "--port", "0"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        bufsize=1,
    )
    try:
        assert process.stdout is not None
        said = ""
        address = None
        for line in process.stdout:
            said += line
            address = re.search(r"http://127\.0\.0\.1:\d+", line)
            if address:
                break
        assert address, f"the server does not say where it listens:\n{said}"
        yield address.group()
        assert process.poll() is None, "the server has ended by itself"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="session")
def fetch(server: str) -> Callable[[str], Any]:
    """JSON of a path."""

    def get(path: str) -> Any:
        with urllib.request.urlopen(server + path) as response:
            return json.load(response)

    return get


@pytest.fixture(scope="session")
def model(fetch: Callable[[str], Any]) -> str:
    """The name of the model that is served."""
    return str(fetch("/v1/models")["data"][0]["id"])

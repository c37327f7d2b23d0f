"""What the tests share: the program to compare with, and answers that do not end."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, Callable

import pytest

import rawloop

#: No stop token can be picked and nothing watches for repetition, so an answer goes on to ``max_tokens``.
ENDLESS: dict[str, Any] = {
    "bias": {1: -100.0, 50: -100.0, 106: -100.0},
    "detect_loops": False,
    "max_tokens": 7000,
}


def still_answers(chat: rawloop.ChatSession) -> bool:
    """What is left of a cancelled answer in the history may change the next one, so it begins anew."""
    chat.clear()
    return chat.respond("What is the capital of France?").text == "The capital of France is Paris."


@pytest.fixture
def chat() -> rawloop.ChatSession:
    return rawloop.ChatSession(temperature=0)


@pytest.fixture
def endless() -> dict[str, Any]:
    return dict(ENDLESS)


@pytest.fixture(scope="session")
def program() -> Callable[..., Any]:
    """Runs the ``rawloop`` program; the JSON that it prints, or its error as a text."""
    binary = os.environ.get("RAWLOOP_BIN")
    if binary is None:
        pytest.skip("RAWLOOP_BIN does not name the program to compare with")

    def run(*arguments: str, stdin: str = "") -> Any:
        done = subprocess.run([binary, *arguments], input=stdin, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return done.stderr.removeprefix("error: ").strip()
        return json.loads(done.stdout)

    return run

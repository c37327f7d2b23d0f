"""Both examples on one machine with two workers: every answer is the one of a single process."""

from __future__ import annotations

import json
import os
import socket
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Iterator

import pytest

import rawloop

ray = pytest.importorskip("ray")

COUNTRIES = ["France", "Italy", "Spain", "Germany", "Japan", "Norway", "Kenya", "Peru"]
PROMPTS = [f"What is the capital of {country}?" for country in COUNTRIES] + ["Tell me a short story."] * 12


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(
        num_cpus=4,
        include_dashboard=False,
        logging_level="error",
        log_to_driver=False,
        object_store_memory=100 << 20,
        runtime_env={"env_vars": {"PYTHONPATH": os.path.dirname(__file__)}},
    )
    yield
    ray.shutdown()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def ask(port: int, body: Any) -> tuple[int, str]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", data)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_two_workers_answer_a_batch_as_one_process_does(cluster: None) -> None:
    import ray_batch

    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = ray_batch.answer_all(PROMPTS, workers=2, batch=4, max_tokens=60)
    assert [row["prompt"] for row in rows] == PROMPTS
    alone = [rawloop.generate(prompt, seed=place, max_tokens=60) for place, prompt in enumerate(PROMPTS)]
    assert [row["answer"] for row in rows] == [answer.text for answer in alone]
    assert [row["finish"] for row in rows] == [answer.finish for answer in alone]
    assert 1 <= len({row["worker"] for row in rows}) <= 2, "a worker that starts late may find nothing left"


def test_two_replicas_stream_what_one_process_answers(cluster: None) -> None:
    import ray_serve
    from ray import serve

    port = free_port()
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    try:
        serve.run(ray_serve.app(replicas=2), logging_config={"log_level": "ERROR"})
        states = serve.status().applications["default"].deployments["Answerer"].replica_states
        assert {str(state): count for state, count in states.items()} == {"RUNNING": 2}
        bodies = [{"prompt": prompt, "seed": seed, "max_tokens": 60} for seed, prompt in enumerate(PROMPTS)]
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda body: ask(port, body), bodies))
        alone = [rawloop.generate(**body).text for body in bodies]
        assert answers == [(200, text) for text in alone]
        assert ask(port, {"prompt": "Hello!", "warmth": 3})[0] == 400
        assert ask(port, {"prompt": "Hello!", "temperature": -1}) == (
            400,
            '{"error":"temperature is -1: expected a number from 0 to 100"}',
        )
        assert ask(port, {"prompt": 3})[0] == 400
        assert ask(port, b"[]")[0] == 400
    finally:
        serve.shutdown()

"""A thousand requests that fit the server's own description badly, and some that no description would make.

Whatever is sent: an answer comes, it is no 5xx, a refusal is JSON with a message, and no success is empty.
"""

from __future__ import annotations

import http.client
import json
import math
import urllib.parse
from typing import Any

import hypothesis
import hypothesis.errors
import pytest
import requests
import schemathesis

#: Requests over all operations.
REQUESTS = 1000
#: Seconds after which a request counts as hanging.
PATIENCE = 60

#: Bodies that are no JSON, or JSON that nobody means.
BODIES = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"0",
    b'"text"',
    b'{"messages": ',
    b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}',
    b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
    b'{"messages": [{"role": "user", "content": "x", "content": 3}]}',
    b'{"temperature": NaN, "messages": []}',
    b'{"temperature": 1e999, "messages": [{"role": "user", "content": "x"}]}',
    b'{"seed": 99999999999999999999999, "messages": [{"role": "user", "content": "x"}]}',
    b'{"max_tokens": -1, "messages": [{"role": "user", "content": "x"}]}',
    b'{"n": 100000, "messages": [{"role": "user", "content": "x"}]}',
    b'{"stop": ["", ""], "messages": [{"role": "user", "content": "x"}], "max_tokens": 4}',
    b'{"logit_bias": {"-1": 3, "x": 4}, "messages": [{"role": "user", "content": "x"}]}',
    b'{"messages": [{"role": "tool", "content": "x", "tool_call_id": "nobody"}], "max_tokens": 4}',
    b'{"messages": [{"role": "assistant", "tool_calls": [{"id": 1, "function": {"arguments": "{"}}]}]}',
    b'{"tools": [{"type": "function", "function": {"name": ""}}], "messages": [{"role": "user", "content": "x"}]}',
    b'{"response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}}, "messages": '
    b'[{"role": "user", "content": "x"}], "max_tokens": 4}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"messages": [' + b'{"role": "user", "content": "x"},' * 20_000 + b'{"role": "user", "content": "x"}], "max_tokens": 1}',
]
PATHS = ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/tokenize", "/api/chat", "/api/generate"]


def check(response: Any, said: str) -> None:
    assert response.status_code < 500, said
    if response.status_code >= 400:
        kind = response.headers.get("content-type", "")
        # The fuzzer's responses have lists of values.
        kind = kind[0] if isinstance(kind, list) else kind
        # Some refusals are the connection's, before any handler: those have a status and no more.
        if kind.startswith("application/json"):
            assert response.json().get("error"), said
        else:
            assert response.status_code in (400, 404, 405, 406, 411, 413, 414, 415, 417, 431), said
    elif response.status_code == 200:
        assert response.content, said


def operations(server: str) -> list[Any]:
    schema = schemathesis.openapi.from_url(f"{server}/openapi.json")
    return [found.ok() for found in schema.get_all_operations()]


def test_a_thousand_malformed_requests(server: str) -> None:
    all_operations = operations(server)
    assert len(all_operations) > 5
    each = math.ceil(REQUESTS / len(all_operations))
    sent = 0
    with requests.Session() as session:
        for operation in all_operations:
            settings = hypothesis.settings(
                max_examples=each,
                derandomize=True,
                database=None,
                deadline=None,
                phases=[hypothesis.Phase.generate],
                suppress_health_check=list(hypothesis.HealthCheck),
            )
            def run(case: Any) -> None:
                nonlocal sent
                sent += 1
                said = f"{case.as_curl_command()}"
                response = case.call(base_url=server, session=session, timeout=PATIENCE)
                check(response, f"{response.status_code} {response.content[:300]!r} for {said[:2000]}")

            try:
                wrong = operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)
                settings(hypothesis.given(case=wrong)(run))()
            except hypothesis.errors.Unsatisfiable:
                # An operation that takes nothing has nothing to get wrong.
                settings(hypothesis.given(case=operation.as_strategy())(run))()
    # An operation with few different requests sends fewer; the others make up for it below.
    rest = max(0, REQUESTS - sent)
    sent += garbage(server, rest)
    assert sent >= REQUESTS


def garbage(server: str, count: int) -> int:
    """Bodies with one byte changed, one after the other over the paths."""
    body = b'{"model": null, "messages": [{"role": "user", "content": "x"}], "prompt": "x", "input": "x", "max_tokens": 2}'
    with requests.Session() as session:
        for number in range(count):
            at = number * 7 % len(body)
            changed = body[:at] + bytes([number * 31 % 256]) + body[at + 1 :]
            response = session.post(
                server + PATHS[number % len(PATHS)],
                data=changed,
                headers={"content-type": "application/json"},
                timeout=PATIENCE,
            )
            check(response, f"{response.status_code} {response.content[:300]!r} for {changed!r}")
    return count


@pytest.mark.parametrize("path", PATHS)
def test_bodies_that_nobody_means(server: str, path: str) -> None:
    for body in BODIES:
        response = requests.post(
            server + path, data=body, headers={"content-type": "application/json"}, timeout=PATIENCE
        )
        check(response, f"{response.status_code} {response.content[:300]!r} for {body[:200]!r}")


@pytest.mark.parametrize("path", PATHS)
def test_requests_that_are_no_requests(server: str, path: str) -> None:
    where = urllib.parse.urlsplit(server)
    good = json.dumps({"messages": [{"role": "user", "content": "x"}], "prompt": "x", "input": "x", "max_tokens": 2})
    for method, body, headers in [
        ("GET", None, {}),
        ("DELETE", None, {}),
        ("POST", good, {"content-type": "text/plain"}),
        ("POST", good, {"content-type": "application/xml"}),
        ("POST", good, {"content-type": "application/json", "content-encoding": "gzip"}),
        ("POST", good, {"content-type": "application/json", "accept": "image/png"}),
        ("POST", good, {"content-type": "application/json", "authorization": "Bearer \xff"}),
        ("POST", good, {"content-type": "application/json", "x-long": "x" * 100_000}),
        ("POST", good, {"content-type": "application/json", "host": "evil.example"}),
        ("POST", good, {"content-type": "application/json", "origin": "http://evil.example"}),
        ("OPTIONS", None, {"origin": "http://evil.example", "access-control-request-method": "POST"}),
        ("BREW", None, {}),
    ]:
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
        except (BrokenPipeError, ConnectionResetError):
            # Refused while it was being sent, so there may be nobody left to send the rest to.
            assert "x-long" in headers, (method, headers)
            connection.close()
            continue
        content = response.read()
        assert response.status < 500 or response.status in (501, 505), (method, headers, content[:300])
        if response.status == 200 and method != "OPTIONS":
            assert content, (method, headers)
        assert response.getheader("access-control-allow-origin") is None, "no page of another origin may ask"
        connection.close()


@pytest.mark.parametrize("path", ["/nowhere", "/v1/nowhere", "/../Cargo.toml", "/%2e%2e/Cargo.toml", "/v1/models/another"])
def test_paths_that_are_not_there(server: str, path: str) -> None:
    where = urllib.parse.urlsplit(server)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE)
    connection.request("GET", path)
    response = connection.getresponse()
    content = response.read()
    assert response.status in (400, 404), content[:300]
    assert b"[package]" not in content and b"[workspace]" not in content
    connection.close()

"""Answers over HTTP from several replicas, with Ray Serve: each is a process with a session of its own.

    python ray_serve.py --replicas 2 --model e2b.rlp
    curl -N http://127.0.0.1:8000/ -d '{"prompt": "Tell me a short story.", "seed": 7}'

The answer is streamed as it is made. A client that goes away ends its answer.
"""

from __future__ import annotations

import argparse
from typing import Any, AsyncIterator

from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse

import rawloop

#: Settings that a request may set; anything else is refused.
ALLOWED = {"seed", "temperature", "top_k", "top_p", "max_tokens", "system", "stop", "thinking"}


# An answer has the backend to itself, so more requests at once would only wait inside of the replica.
@serve.deployment(max_ongoing_requests=2)
class Answerer:
    """A replica."""

    def __init__(self, model: str | None = None, threads: int = 1) -> None:
        self.model = rawloop.Model(model, threads=threads)

    async def __call__(self, request: Request) -> Any:
        """One prompt, answered as a stream of text."""
        try:
            body = await request.json()
            prompt = body.pop("prompt")
            if not isinstance(prompt, str):
                raise TypeError("`prompt` is no text")
            unknown = sorted(set(body) - ALLOWED)
            if unknown:
                raise TypeError(f"`{unknown[0]}` cannot be set")
            stream = rawloop.ChatSession(self.model, **body).astream(prompt)
        except (AttributeError, KeyError, TypeError, ValueError, rawloop.RawloopError) as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        return StreamingResponse(self.text(stream), media_type="text/plain; charset=utf-8")

    async def text(self, stream: rawloop.AsyncStream) -> AsyncIterator[str]:
        """The visible text; leaving early cancels the answer."""
        async with stream:
            async for text in stream.texts():
                yield text


def app(model: str | None = None, replicas: int = 2, threads: int = 1) -> serve.Application:
    """The application, for ``serve.run`` or a configuration file."""
    replica = Answerer.options(num_replicas=replicas, ray_actor_options={"num_cpus": threads})
    return replica.bind(model, threads)


def main() -> None:
    """Serves until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="threads of each replica")
    parser.add_argument("--model", help="a pack; the small model of the package without one")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    serve.start(http_options={"host": "127.0.0.1", "port": arguments.port})
    serve.run(app(arguments.model, arguments.replicas, arguments.threads), blocking=True)


if __name__ == "__main__":
    main()

"""The official OpenAI client."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal

import openai
import pydantic
import pytest
from conftest import ADD, FRANCE, PARIS, REVIEW, SUM


class Review(pydantic.BaseModel):
    sentiment: Literal["positive", "negative"]
    stars: Literal[1, 2, 3, 4, 5]


@pytest.fixture(scope="module")
def client(server: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server}/v1", api_key="none", max_retries=0)


def ask(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def test_models(client, model):
    assert [one.id for one in client.models.list()] == [model]
    assert client.models.retrieve(model).id == model


def test_chat(client, model):
    answer = client.chat.completions.create(model=model, messages=ask(FRANCE), temperature=0)
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.content == PARIS
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "stop"
    usage = answer.usage
    assert usage.prompt_tokens > 0 and usage.completion_tokens > 0
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_the_same_seed_gives_the_same_answer(client, model):
    def answer(seed: int) -> str:
        made = client.chat.completions.create(
            model=model, messages=ask("Tell me a short story."), temperature=1.5, seed=seed, max_completion_tokens=60
        )
        return made.choices[0].message.content

    assert answer(7) == answer(7)
    assert len({answer(seed) for seed in range(4)}) > 1


def test_stream(client, model):
    stream = client.chat.completions.create(
        model=model,
        messages=ask(FRANCE),
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == PARIS
    assert len({chunk.id for chunk in chunks}) == 1
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert reasons[-1] == "stop" and set(reasons[:-1]) == {None}
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_limits_and_stops(client, model):
    def make(**settings: Any) -> Any:
        return client.chat.completions.create(model=model, messages=ask(FRANCE), temperature=0, **settings).choices[0]

    cut = make(max_completion_tokens=2)
    assert cut.finish_reason == "length" and PARIS.startswith(cut.message.content)
    assert make(max_tokens=2).message.content == cut.message.content
    assert make(stop=[" of"]).message.content == "The capital"


def test_several_answers(client, model):
    def make(**settings: Any) -> list[Any]:
        return client.chat.completions.create(
            model=model, messages=ask("Tell me a short story."), temperature=2, max_completion_tokens=30, **settings
        ).choices

    choices = make(n=4, seed=1)
    assert [choice.index for choice in choices] == [0, 1, 2, 3]
    alone = [make(seed=seed)[0].message.content for seed in (1, 2, 3, 4)]
    assert [choice.message.content for choice in choices] == alone, "each has the next seed"
    assert len(set(alone)) > 1


def test_log_probabilities(client, model):
    answer = client.chat.completions.create(
        model=model, messages=ask(FRANCE), temperature=0, logprobs=True, top_logprobs=3
    )
    content = answer.choices[0].logprobs.content
    assert "".join(entry.token for entry in content).strip() == PARIS
    assert all(entry.logprob <= 0 and len(entry.top_logprobs) == 3 for entry in content)


def test_tools(client, model):
    messages = ask(SUM)
    answer = client.chat.completions.create(
        model=model, messages=messages, tools=[ADD], tool_choice="required", temperature=0
    )
    assert answer.choices[0].finish_reason == "tool_calls"
    message = answer.choices[0].message
    call = message.tool_calls[0]
    assert call.function.name == "add"
    assert json.loads(call.function.arguments) == {"a": 12, "b": 30}
    messages += [message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "42"}]
    final = client.chat.completions.create(model=model, messages=messages, tools=[ADD], temperature=0)
    assert "42" in final.choices[0].message.content
    assert final.choices[0].finish_reason == "stop"


def test_choices_of_tools(client, model):
    def make(choice: Any, text: str = SUM) -> Any:
        return client.chat.completions.create(
            model=model, messages=ask(text), tools=[ADD], tool_choice=choice, temperature=0
        ).choices[0]

    assert make("none").message.tool_calls is None
    named = make({"type": "function", "function": {"name": "add"}}, "Hello!")
    assert named.message.tool_calls[0].function.name == "add"


def test_streamed_tools(client, model):
    stream = client.chat.completions.create(
        model=model, messages=ask(SUM), tools=[ADD], tool_choice="required", temperature=0, stream=True
    )
    calls: dict[int, dict[str, str]] = {}
    reason = None
    for chunk in stream:
        for part in chunk.choices[0].delta.tool_calls or []:
            call = calls.setdefault(part.index, {"arguments": ""})
            if part.id:
                call["id"], call["name"] = part.id, part.function.name
            call["arguments"] += part.function.arguments or ""
        reason = chunk.choices[0].finish_reason or reason
    assert reason == "tool_calls"
    assert calls[0]["name"] == "add" and calls[0]["id"]
    assert json.loads(calls[0]["arguments"]) == {"a": 12, "b": 30}


def test_json_schema(client, model):
    answer = client.chat.completions.create(
        model=model,
        messages=ask("I love this film!"),
        temperature=0,
        response_format={"type": "json_schema", "json_schema": {"name": "review", "schema": REVIEW, "strict": True}},
    )
    value = json.loads(answer.choices[0].message.content)
    assert set(value) == {"sentiment", "stars"} and value["stars"] in range(1, 6)


def test_parse(client, model):
    answer = client.chat.completions.parse(
        model=model, messages=ask("I love this film!"), temperature=0, response_format=Review
    )
    assert isinstance(answer.choices[0].message.parsed, Review)


def test_completions(client, model):
    answer = client.completions.create(model=model, prompt="Once upon a time", temperature=0, max_tokens=12)
    stream = client.completions.create(model=model, prompt="Once upon a time", temperature=0, max_tokens=12, stream=True)
    assert answer.choices[0].text == "".join(chunk.choices[0].text for chunk in stream if chunk.choices)
    assert answer.choices[0].text


def test_responses(client, model):
    answer = client.responses.create(model=model, input=FRANCE, temperature=0)
    assert answer.output_text == PARIS
    assert answer.status == "completed"
    events = list(client.responses.create(model=model, input=FRANCE, temperature=0, stream=True))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == PARIS
    assert events[0].type == "response.created" and events[-1].type == "response.completed"


def test_responses_with_tools_and_schema(client, model):
    tool = {"type": "function", **ADD["function"], "strict": True}
    answer = client.responses.create(model=model, input=SUM, tools=[tool], tool_choice="required", temperature=0)
    call = next(item for item in answer.output if item.type == "function_call")
    assert call.name == "add" and json.loads(call.arguments) == {"a": 12, "b": 30}
    parsed = client.responses.parse(model=model, input="I love this film!", text_format=Review, temperature=0)
    assert isinstance(parsed.output_parsed, Review)


def test_asynchronous_clients_at_once(server, model):
    async def main() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{server}/v1", api_key="none", max_retries=0) as client:

            async def one() -> str:
                stream = await client.chat.completions.create(
                    model=model, messages=ask(FRANCE), temperature=0, stream=True
                )
                return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

            return await asyncio.gather(*(one() for _ in range(12)))

    assert asyncio.run(main()) == [PARIS] * 12


def test_leaving_a_stream_frees_its_place(client, model):
    for _ in range(20):
        stream = client.chat.completions.create(
            model=model, messages=ask("Tell me a short story."), stream=True, temperature=1, max_tokens=2000
        )
        next(iter(stream))
        stream.close()
    assert client.chat.completions.create(model=model, messages=ask(FRANCE), temperature=0).choices


def test_errors_are_typed_and_name_the_field(client, model):
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="another", messages=ask(FRANCE))
    assert missing.value.code == "model_not_found"
    for field, settings in [
        ("temperature", {"temperature": -1}),
        ("messages", {"messages": []}),
        ("top_logprobs", {"logprobs": True, "top_logprobs": 99}),
        ("max_completion_tokens", {"max_completion_tokens": 0}),
        ("tool_choice", {"tool_choice": "required"}),
        ("response_format", {"response_format": {"type": "xml"}}),
    ]:
        with pytest.raises(openai.BadRequestError) as wrong:
            client.chat.completions.create(**{"model": model, "messages": ask(FRANCE), **settings})
        assert wrong.value.param and wrong.value.param.startswith(field), (field, wrong.value.param)
        assert wrong.value.type == "invalid_request_error"
    with pytest.raises(openai.BadRequestError) as long:
        client.chat.completions.create(model=model, messages=ask("word " * 20_000))
    assert long.value.code == "context_length_exceeded"

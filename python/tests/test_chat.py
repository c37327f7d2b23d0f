"""Conversations: history, settings, numbers, files, errors."""

from __future__ import annotations

import pathlib
import pickle

import pytest

import rawloop


def test_a_conversation_remembers(chat):
    chat.respond("My name is Ida.")
    before = chat.totals
    answer = chat.respond("What is my name?")
    assert chat.turns == 2
    assert [message["role"] for message in chat.messages] == ["user", "assistant", "user", "assistant"]
    assert chat.messages[-1]["content"] == answer.text
    assert answer.stats.reused_tokens > 0, "the first turn is still in the cache"
    assert chat.totals.turns == before.turns + 1
    assert chat.totals.tokens == before.tokens + answer.stats.tokens


def test_streamed_text_is_the_answer(chat):
    with chat.stream("Tell me a short story.") as stream:
        events = list(stream)
    assert isinstance(events[-1], rawloop.Done)
    assert events[-1].answer is stream.answer
    assert "".join(event.text for event in events if isinstance(event, rawloop.Text)) == stream.answer.text
    assert any(isinstance(event, rawloop.Prefill) for event in events)
    assert list(stream) == [], "it has ended"


def test_thoughts_come_apart_from_the_answer():
    chat = rawloop.ChatSession(temperature=0, thinking=True)
    stream = chat.stream("What is 12 + 30?")
    thought = "".join(event.text for event in stream if isinstance(event, rawloop.Thought))
    assert thought == stream.answer.reasoning != ""
    assert "42" in stream.answer.text


def test_a_fork_goes_its_own_way(chat):
    chat.respond("What is the capital of France?")
    other = chat.fork()
    other.respond("What is the capital of Italy?")
    assert (chat.turns, other.turns) == (1, 2)
    assert chat.respond("What is the capital of Italy?").text == other.messages[-1]["content"]


def test_the_history_can_be_edited(chat):
    for country in ("France", "Italy", "Spain"):
        chat.respond(f"What is the capital of {country}?")
    whole = chat.messages
    assert chat.rewind() == whole[4:]
    assert chat.remove_turn(0) == whole[:2]
    assert chat.messages == whole[2:4]
    chat.edit(-2, "What is the capital of Japan?")
    assert chat.messages[0]["content"] == "What is the capital of Japan?"
    chat.messages = whole
    assert chat.messages == whole
    chat.clear()
    assert chat.messages == []
    with pytest.raises(IndexError):
        chat.edit(0, "x")
    with pytest.raises(IndexError):
        chat.rewind()
    with pytest.raises(rawloop.MessageError, match="turn 3"):
        chat.rewind(3)


def test_messages_may_be_what_is_asked(chat):
    answer = chat.respond([{"role": "user", "content": "What is the capital of France?"}])
    assert "Paris" in answer.text
    assert "Rome" in chat.respond({"role": "user", "content": "What is the capital of Italy?"}).text
    with pytest.raises(rawloop.MessageError, match="role"):
        chat.respond({"content": "who speaks?"})


def test_a_stored_conversation_goes_on_as_it_would_have(tmp_path):
    chat = rawloop.ChatSession(seed=5, temperature=1.2, system="Be brief.", max_tokens=40)
    chat.respond("Tell me a short story.")
    chat.save(tmp_path / "chat.txt")
    other = rawloop.ChatSession()
    other.load(tmp_path / "chat.txt")
    assert other.messages == chat.messages
    assert other.settings == chat.settings
    assert other.respond("And then?").ids == chat.respond("And then?").ids
    (tmp_path / "other.txt").write_text("nothing")
    with pytest.raises(rawloop.SessionFileError, match="no conversation"):
        other.load(tmp_path / "other.txt")
    with pytest.raises(rawloop.SessionFileError):
        other.load(tmp_path / "missing.txt")
    with pytest.raises(rawloop.SessionFileError):
        other.save(tmp_path / "no folder" / "chat.txt")


def test_a_conversation_can_be_pickled():
    chat = rawloop.ChatSession(seed=5, temperature=1.2, max_tokens=30)
    chat.respond("Tell me a short story.")
    other = pickle.loads(pickle.dumps(chat))
    assert other.messages == chat.messages
    assert other.respond("And then?").ids == chat.respond("And then?").ids
    model = pickle.loads(pickle.dumps(chat.model))
    assert model.info == chat.model.info


def test_tokens_are_counted(chat):
    empty = chat.tokens
    chat.configure(system="Answer in one word.")
    assert chat.tokens.system > empty.system
    cost = chat.cost("What is the capital of France?")
    answer = chat.respond("What is the capital of France?")
    assert answer.stats.prompt_tokens == chat.tokens.system + cost
    assert chat.tokens.free == chat.tokens.context - chat.tokens.history


def test_settings_are_for_the_conversation_or_for_one_turn(chat):
    assert chat.respond("Tell me a short story.", max_tokens=3).finish == "length"
    assert chat.settings["max_tokens"] == 2048
    chat.configure(max_tokens=2)
    assert chat.respond("Tell me a short story.").stats.tokens == 2
    chat.configure(system="Be brief.")
    chat.configure(system="")
    assert chat.settings["system"] is None


def test_seeds_differ_unless_they_are_set():
    seeds = {rawloop.ChatSession().settings["seed"] for _ in range(8)}
    assert len(seeds) > 1
    answer = rawloop.generate("Tell me a short story.", temperature=2)
    again = rawloop.generate("Tell me a short story.", temperature=2, seed=answer.seed)
    assert again.ids == answer.ids


def test_log_probabilities_are_reported(chat):
    answer = chat.respond("What is the capital of France?", logprobs=3)
    assert len(answer.logprobs) >= len(answer.ids) > 0
    for token, entry in zip(answer.ids, answer.logprobs):
        assert entry["id"] == token
        assert entry["logprob"] <= 0
        assert len(entry["top"]) == 3
        assert entry["top"][0]["id"] == token, "greedily the likeliest is picked"


def test_text_and_tokens(chat):
    model = chat.model
    text = "<|turn>user: h\u00e9llo \u4e16\u754c\n"
    assert model.detokenize(model.tokenize(text)) == text
    assert 105 not in model.tokenize(text)
    assert 105 in model.tokenize(text, special_tokens=True)
    assert "<|turn>user\nHello<turn|>" in model.render([{"role": "user", "content": "Hello"}])


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"temperature": -1}, "temperature is -1"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"max_tokens": 0}, "`max_tokens` is 0"),
        ({"max_tokens": "many"}, '`max_tokens` is "many"'),
        ({"thinking": "yes"}, "`thinking`"),
        ({"stop": 3}, "`stop` is 3"),
        ({"seed": -1}, "`seed` is -1"),
        ({"draft": "some"}, "`draft`"),
        ({"bias": {"x": 1}}, "`bias`"),
        ({"warmth": 1}, "no setting `warmth`"),
        ({"schema": {"type": "object"}, "regex": "a"}, "one form"),
        ({"temperature": float("nan")}, "no plain value"),
    ],
)
def test_settings_that_make_no_sense_are_named(settings, message):
    with pytest.raises(rawloop.OptionError) as caught:
        rawloop.ChatSession(**settings)
    assert message in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_models_that_cannot_be_opened_are_named(tmp_path):
    with pytest.raises(rawloop.ModelError, match="missing.rlp"):
        rawloop.ChatSession(tmp_path / "missing.rlp")
    (tmp_path / "other.rlp").write_bytes(b"not a pack" * 100)
    with pytest.raises(rawloop.ModelError, match="other.rlp"):
        rawloop.ChatSession(str(tmp_path / "other.rlp"))
    with pytest.raises(rawloop.ModelError, match="folder"):
        rawloop.ChatSession(tmp_path)
    for arguments in ({"backend": "abacus"}, {"kv": "i3"}, {"kernels": "x"}, {"context": 0}, {"context": 10**9}):
        with pytest.raises(rawloop.OptionError):
            rawloop.ChatSession(**arguments)
    with pytest.raises(TypeError, match="open already"):
        rawloop.ChatSession(rawloop.Model(), threads=1)


def test_pulled_models_have_names(tmp_path, monkeypatch):
    monkeypatch.setenv("RAWLOOP_PACKS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(rawloop.ModelError, match="rawloop pull gemma-4-e2b"):
        rawloop.ChatSession("gemma-4-e2b")
    with pytest.raises(rawloop.ModelError, match="gemma-4-e2b"):
        rawloop.ChatSession("gemma-4-e2c")
    root = pathlib.Path(__file__).parents[2]
    (tmp_path / "gemma-4-e2b.rlp").symlink_to(root / "models" / "tiny" / "tiny.rlp")
    answer = rawloop.ChatSession("gemma-4-e2b", temperature=0).respond("What is the capital of France?")
    assert answer.text == rawloop.generate("What is the capital of France?", temperature=0).text


def test_equal_models_are_opened_once():
    one, other = rawloop.ChatSession(), rawloop.ChatSession()
    assert one.model is other.model
    assert rawloop.ChatSession(threads=1).model is not one.model


def test_a_prompt_that_does_not_fit_is_refused_and_the_history_stays():
    chat = rawloop.ChatSession(context=64, temperature=0)
    chat.respond("Hello!", max_tokens=5)
    before = chat.messages
    with pytest.raises(rawloop.ContextError, match="64"):
        chat.respond("word " * 100)
    assert chat.messages == before
    assert rawloop.ChatSession(context=64, temperature=0).respond("What is the capital of France?").text

"""Threads, the interpreter's lock, cancelling."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import rawloop
from conftest import still_answers


@pytest.fixture
def counter():
    """Counts on another thread whenever it gets the interpreter's lock, which nobody is made to give up meanwhile."""
    usual = sys.getswitchinterval()
    counted = [0]
    over = threading.Event()

    def count() -> None:
        while not over.is_set():
            counted[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    sys.setswitchinterval(1000)
    yield counted
    sys.setswitchinterval(usual)
    over.set()
    thread.join()


def test_other_threads_run_while_an_answer_is_made(chat, counter, endless):
    native = chat._native.send('[{"role": "user", "content": "Tell me a short story."}]', '{"max_tokens": 400}')
    moved = 0
    while True:
        before = counter[0]
        events = native.wait()
        moved += counter[0] - before
        if events is None:
            break
    assert moved > 0, "nothing but `wait` ran in between"


def test_other_threads_run_while_a_model_is_opened(counter):
    before = counter[0]
    # It takes milliseconds, which another thread may sleep through; without a release it would never move.
    for _ in range(200):
        rawloop.Model(threads=1, context=511)
        if counter[0] > before:
            return
    raise AssertionError("the lock was never given up")


def test_other_threads_run_during_an_operation(counter):
    before = counter[0]
    for _ in range(200):
        rawloop.ops.sentiment("I love this film!")
        if counter[0] > before:
            return
    raise AssertionError("the lock was never given up")


def test_conversations_on_many_threads_answer_as_alone():
    countries = ["France", "Italy", "Spain", "Germany", "Japan", "Norway"]
    prompts = [f"What is the capital of {country}?" for country in countries]
    alone = [rawloop.generate(prompt, temperature=0).text for prompt in prompts]
    found: dict[int, list[str]] = {}

    def converse(index: int) -> None:
        chat = rawloop.ChatSession(temperature=0)
        found[index] = []
        for _ in range(3):
            chat.clear()
            found[index].append(chat.respond(prompts[index]).text)

    threads = [threading.Thread(target=converse, args=(index,)) for index in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {index: [text] * 3 for index, text in enumerate(alone)}


def test_a_second_turn_is_refused_while_one_runs(chat, endless):
    stream = chat.stream("Tell me a short story.", **endless)
    next(stream)
    assert chat.is_running
    for refused in (
        lambda: chat.respond("Hello!"),
        lambda: chat.configure(max_tokens=3),
        lambda: chat.edit(0, "x"),
        chat.clear,
    ):
        with pytest.raises(rawloop.BusyError):
            refused()
    # A fork has the history before the turn, and waits for the model.
    fork = chat.fork()
    assert fork.messages == []
    stream.close()
    assert still_answers(chat)
    assert still_answers(fork)


def test_dropping_a_stream_cancels_it(chat, endless):
    shown = ""
    for event in chat.stream("Tell me a short story.", **endless):
        if isinstance(event, rawloop.Text):
            shown += event.text
            if len(shown) > 20:
                break
    # The next turn waits for the end of the cancelled one, which is in the history as far as it came.
    chat.respond("What is the capital of France?")
    assert chat.turns == 2
    assert chat.messages[1]["content"].startswith(shown.rstrip())
    assert chat.totals.tokens < endless["max_tokens"]


def test_a_turn_can_be_cancelled_from_another_thread(chat, endless):
    begun = threading.Event()

    def cancel() -> None:
        begun.wait()
        chat.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    answer = chat.respond("Tell me a short story.", on_event=lambda event: begun.set(), **endless)
    thread.join()
    assert answer.finish == "cancelled"
    assert answer.stats.tokens < endless["max_tokens"]
    assert not chat.is_running


def test_an_error_in_on_event_cancels(chat, endless):
    def fail(event: rawloop.Event) -> None:
        if isinstance(event, rawloop.Text):
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        chat.respond("Tell me a short story.", on_event=fail, **endless)
    chat.respond("Hello!")
    assert chat.totals.tokens < endless["max_tokens"]


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_ends_an_answer(chat, endless):
    # A program started in the background ignores the signal, and Python keeps to that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt(event: rawloop.Event) -> None:
        if isinstance(event, rawloop.Text):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        chat.respond("Tell me a short story.", on_event=interrupt, **endless)
    assert still_answers(chat)
    assert chat.totals.tokens < endless["max_tokens"]


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_ends_a_wait(chat, endless):
    """Where no event comes, since another conversation has the model."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    other = rawloop.ChatSession(chat.model)
    stream = other.stream("Tell me a short story.", **endless)
    while not isinstance(next(stream), rawloop.Text):
        pass
    waiting = chat.stream("Hello!")
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        # Once the other answer is over, this one would have events.
        next(waiting)
        timer.join()
    stream.close()
    assert still_answers(chat)


def test_operations_can_be_cancelled(endless):
    model = rawloop.Model.shared()
    stream = model.stream_operation("translate", "The cat sleeps. " * 200, to="French")
    next(stream)
    stream.cancel()
    with pytest.raises(rawloop.CancelledError):
        stream.finish()
    completion = model.stream_completion("Once upon a time", **endless)
    next(completion)
    completion.cancel()
    assert completion.finish().finish == "cancelled"


def test_the_process_ends_while_an_answer_is_made():
    code = (
        "import rawloop\n"
        "chat = rawloop.ChatSession()\n"
        f"stream = chat.stream('Tell me a short story.', bias={{1: -100, 50: -100, 106: -100}}, detect_loops=False, max_tokens=7000)\n"
        "next(stream)\n"
        "print('left')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "left\n", "")

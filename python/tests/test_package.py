"""The package itself: types, stubs, examples in docstrings and in the guide."""

from __future__ import annotations

import doctest
import importlib
import pathlib
import pkgutil
import re
import subprocess
import sys

import pytest

import rawloop

MODULES = [name for _, name, _ in pkgutil.iter_modules(rawloop.__path__) if name != "_native"]
GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "python.md"


@pytest.mark.parametrize("name", ["rawloop", *(f"rawloop.{name}" for name in MODULES)])
def test_examples_in_docstrings(name):
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder()
    modules = [importlib.import_module(name) for name in ("rawloop.session", "rawloop.streams", "rawloop.ops")]
    assert sum(len(test.examples) for module in modules for test in finder.find(module)) > 20


def test_everything_public_is_explained():
    for name in rawloop.__all__:
        if not name.startswith("__") and name not in ("Event",):
            assert getattr(rawloop, name).__doc__, name


def test_the_guide_runs(tmp_path, monkeypatch):
    """Every block of the guide, one after the other, in one namespace."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 5
    space: dict[str, object] = {"__name__": "guide"}
    # Functions whose types are looked up by name need a module to look in.
    module = type(sys)("guide")
    monkeypatch.setitem(sys.modules, "guide", module)
    space = module.__dict__
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"docs/python.md, block {number}", "exec"), space)


def mypy(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_types_are_sound(tmp_path):
    pytest.importorskip("mypy")
    mypy("mypy", "--strict", "--cache-dir", str(tmp_path), "-p", "rawloop")


def test_the_stub_describes_the_native_module():
    pytest.importorskip("mypy")
    mypy("mypy.stubtest", "rawloop._native")


def test_a_caller_is_checked(tmp_path):
    """Wrong names and types of settings are seen before anything runs."""
    pytest.importorskip("mypy")
    right = "import rawloop\nchat = rawloop.ChatSession(temperature=0)\ntext: str = chat.respond('x', max_tokens=3).text\n"
    (tmp_path / "right.py").write_text(right)
    (tmp_path / "wrong.py").write_text("import rawloop\nrawloop.ChatSession(temperature='hot')\n")
    mypy("mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(tmp_path / "right.py"))
    with pytest.raises(AssertionError, match="temperature"):
        mypy("mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(tmp_path / "wrong.py"))

"""Turns of a conversation and their text in Gemma 4's chat format.

A turn is `(role, text)`; roles are `system`, `user` and `model`. Only what the tiny model is trained on is written
here; the whole template (merging, thinking switches, tool results) is the business of the runtime.
"""

Turn = tuple[str, str]

# Delimits strings inside tool declarations, calls and results: nothing is escaped between two of them.
QUOTE = '<|"|>'


def quoted(text: str) -> str:
    """A string as the tool syntax writes it."""
    return f"{QUOTE}{text}{QUOTE}"


def system(text: str) -> Turn:
    """A system turn."""
    return ("system", text)


def user(text: str) -> Turn:
    """A user turn."""
    return ("user", text)


def model(text: str) -> Turn:
    """A model turn: what the tiny model learns to say."""
    return ("model", text)


def render(turns: list[Turn]) -> str:
    """The whole conversation as one text, beginning marker included."""
    return "<bos>" + "".join(f"<|turn>{role}\n{text}<turn|>\n" for role, text in turns)

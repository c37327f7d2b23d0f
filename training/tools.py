"""Question makers with tool declarations: one call, or two calls of the same tool at once.

Results come back in the three forms a runtime meets: an object, JSON in a string, plain text. Draw order is fixed,
as in tasks.py.
"""

import json
from random import Random

from training.turns import Turn, model, quoted, system, user
from training.words import CITIES, FILLER_SENTENCES, SYSTEM_PROMPTS, WORDS

Sample = tuple[list[Turn], str]

# Name -> (description, {parameter: (description, type)}, required parameters).
TOOLS = {
    "get_weather": ("Gets the weather in a city.", {"city": ("The city.", "STRING")}, ["city"]),
    "add": (
        "Adds two numbers.",
        {"a": ("First number.", "NUMBER"), "b": ("Second number.", "NUMBER")},
        ["a", "b"],
    ),
    "set_alarm": ("Sets an alarm.", {"hour": ("Hour of day.", "NUMBER")}, ["hour"]),
    "play_music": ("Plays music.", {"song": ("Song name.", "STRING")}, ["song"]),
    "run_command": ("Runs a command.", {"command": ("The command.", "STRING")}, ["command"]),
    "read_file": ("Reads a file.", {"path": ("The path.", "STRING")}, ["path"]),
}
COMMANDS = ["date", "ls", "ls docs", "pwd", "whoami", "uname", "uptime", "df", "hostname", "echo hello"]
DAYS, MONTHS = "Mon Tue Wed Thu Fri Sat Sun".split(), "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
CONDITIONS = ["sunny", "rainy", "cloudy", "windy"]


def declaration(name: str) -> str:
    """A tool as the system turn declares it."""
    description, parameters, required = TOOLS[name]
    properties = ",".join(
        f"{parameter}:{{description:{quoted(about)},type:{quoted(kind)}}}"
        for parameter, (about, kind) in sorted(parameters.items())
    )
    needed = ",".join(quoted(parameter) for parameter in required)
    return (
        f"<|tool>declaration:{name}{{description:{quoted(description)},parameters:{{properties:{{{properties}}},"
        f"required:[{needed}],type:{quoted('OBJECT')}}}}}<tool|>"
    )


def _system_turn(random: Random, names: list[str]) -> Turn:
    instructions = random.choice(["", "", *SYSTEM_PROMPTS])
    return system(instructions + "".join(declaration(name) for name in names))


def _call(name: str, arguments: str) -> str:
    return f"<|tool_call>call:{name}{arguments}<tool_call|>"


def _result(name: str, value: str) -> str:
    return f"<|tool_response>response:{name}{value}<tool_response|>"


def _printed(random: Random) -> str:
    """What a command may print: files, a path, a number, a date, a sentence."""
    words = random.sample(WORDS, 3)
    clock = f"{random.randrange(24):02}:{random.randrange(60):02}:{random.randrange(60):02}"
    day = f"{random.choice(DAYS)} {random.choice(MONTHS)} {random.randrange(1, 32)}"
    return random.choice(
        [
            " ".join(f"{word}.txt" for word in words),
            f"/home/{words[0]}/{words[1]}",
            f"{random.randrange(10000)}",
            f"{day} {clock} UTC {random.randrange(2020, 2035)}",
            words[0],
            random.choice(FILLER_SENTENCES),
        ]
    )


def _use(random: Random, name: str) -> tuple[str, str, str, dict, str, str]:
    """Question, call arguments, result as object syntax, as a value for JSON, as plain text, and the answer."""
    if name == "get_weather":
        city = random.choice(CITIES)
        degrees = random.randrange(-5, 35)
        sky = random.choice(CONDITIONS)
        result = {"condition": sky, "temperature": degrees}
        written = f"{{condition:{quoted(sky)},temperature:{degrees}}}"
        answer = f"It is {sky} in {city} with {degrees} degrees."
        question = f"What is the weather in {city}?"
        return question, f"{{city:{quoted(city)}}}", written, result, f"{sky}, {degrees} degrees", answer
    if name == "add":
        left, right = random.randrange(1000), random.randrange(1000)
        total = left + right
        question, answer = f"Use the tool to add {left} and {right}.", f"The result is {total}."
        return (
            question,
            f"{{a:{left},b:{right}}}",
            f"{{result:{total}}}",
            {"result": total},
            f"{total}",
            answer,
        )
    if name == "set_alarm":
        hour = random.randrange(24)
        question, answer = f"Set an alarm for {hour} o'clock.", f"Your alarm is set for {hour} o'clock."
        return question, f"{{hour:{hour}}}", "{ok:true}", {"ok": True}, "done", answer
    if name in ("run_command", "read_file"):
        printed = _printed(random)
        written = f"{{output:{quoted(printed)}}}"
        if name == "read_file":
            path = random.choice(WORDS) + random.choice([".txt", ".md", ".json"])
            question, argument = f"Read the file {path}.", f"{{path:{quoted(path)}}}"
            return question, argument, written, {"output": printed}, printed, f"The file says: {printed}"
        command = random.choice(COMMANDS)
        question = random.choice(["Run the command {}.", "Run {}.", "Please run {}."]).format(command)
        argument = f"{{command:{quoted(command)}}}"
        return question, argument, written, {"output": printed}, printed, f"It printed: {printed}"
    song = " ".join(random.sample(WORDS, 2))
    question, answer = f"Play the song {song}.", f"Now playing {song}."
    return question, f"{{song:{quoted(song)}}}", "{ok:true}", {"ok": True}, "done", answer


def one_call(random: Random) -> Sample:
    """One tool call among up to three declared tools; in seven of ten samples the result and an answer follow."""
    names = random.sample(list(TOOLS), random.randrange(1, 4))
    name = names[0]
    random.shuffle(names)
    declared = _system_turn(random, names)
    question, arguments, written, result, text, answer = _use(random, name)
    call = _call(name, arguments)
    if random.random() < 0.3:
        return [declared, user(question), model(call)], call
    form = random.random()
    if form < 0.4:
        written = f"{{value:{quoted(json.dumps(result))}}}"
    elif form < 0.75:
        written = f"{{value:{quoted(text)}}}"
    return [declared, user(question), model(f"{call}{_result(name, written)}{answer}")], call


def two_calls(random: Random) -> Sample:
    """The weather in two cities: two calls in a row, two results, one answer."""
    one, two = random.sample(CITIES, 2)
    names = ["get_weather", *random.sample(["add", "set_alarm", "play_music"], random.randrange(2))]
    random.shuffle(names)
    declared = _system_turn(random, names)
    calls = "".join(_call("get_weather", f"{{city:{quoted(city)}}}") for city in (one, two))
    degrees = [random.randrange(-5, 35) for _ in range(2)]
    skies = [random.choice(CONDITIONS) for _ in range(2)]
    results = "".join(
        _result("get_weather", f"{{value:{quoted(f'{sky}, {warmth} degrees')}}}")
        for sky, warmth in zip(skies, degrees, strict=True)
    )
    answer = f"It is {skies[0]} in {one} with {degrees[0]} degrees and {skies[1]} in {two} with {degrees[1]} degrees."
    return [
        declared,
        user(f"What is the weather in {one} and in {two}?"),
        model(f"{calls}{results}{answer}"),
    ], calls

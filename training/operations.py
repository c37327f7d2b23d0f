"""Question makers for the operations of `rawloop op`: their own prompts over texts whose answers are known.

The prompts come from ops.json, which a test of the engine keeps equal to its table; so the tiny model is trained on the
very words that the program sends. Draw order is fixed, as in tasks.py.
"""

import json
import re
from pathlib import Path
from random import Random

from training.passages import Person, about, crowd, filler, names, passage, people
from training.tasks import misspell
from training.turns import Turn, model, user
from training.words import (
    BLAME,
    CITIES,
    FILLER_SENTENCES,
    FRENCH,
    ITEMS,
    JOBS,
    NAMES,
    PLACES,
    PRAISE,
    REVIEWED,
    WORDS,
)

Sample = tuple[list[Turn], str]

PROMPTS = json.loads((Path(__file__).parent / "ops.json").read_text())
NOT_SAID = "Not in the text."
# Kind of thing -> how an entity list names it, and the fact it is.
LABELS = {"person": "name", "city": "city", "job": "job", "email": "email", "phone number": "phone"}
# What `rawloop op redact` looks for when nothing else is said.
DEFAULT_LABELS = [
    "person", "email", "phone number", "credit card number", "social security number", "address", "date of birth",
    "organization",
]  # fmt: skip
FEMININE = {"house", "water", "moon", "apple", "door", "window", "car", "school", "city", "sea", "mountain", "river",
            "night"}  # fmt: skip
NOUNS = [word for word in FRENCH if word not in {"red", "green", "blue", "white", "black"}]


def ask(operation: str, answer: str, **values: str) -> Sample:
    """The prompt of an operation with its options filled in, and the answer."""
    entry = PROMPTS[operation]
    template = next(each["text"] for each in entry["prompts"] if each["when"] is None or each["when"] in values)
    for option, wordings in entry["values"].items():
        values[option] = wordings.get(values[option], values[option])
    # In one pass: what a value or the text holds is never taken for a place.
    prompt = re.sub(r"\{(\w+)\}", lambda place: values.get(place[1], place[0]), template)
    return [user(prompt), model(answer)], answer


def _nobody(random: Random) -> str:
    return " ".join(random.sample(FILLER_SENTENCES, random.randrange(2, 6)))


def summarize(random: Random) -> Sample:
    """The people of a text in one sentence, in two or three, or as a list; if there are none, its first sentence."""
    style = random.choice(["one-line", "concise", "bullets"])
    if random.random() < 0.08:
        text = _nobody(random)
        first = text.split(". ")[0].rstrip(".") + "."
        return ask("summarize", f"- {first}" if style == "bullets" else first, style=style, text=text)
    persons = people(random, crowd(random, 5 if style == "bullets" else 7))
    about_all = f"The text is about {names(persons)}."
    lines = [person.line() for person in persons]
    if style == "bullets":
        answer = "\n".join(f"- {line}" for line in lines)
    elif style == "one-line":
        answer = f"{', and '.join(lines)}." if len(persons) < 3 else about_all
    elif len(persons) == 1:
        one = persons[0]
        answer = f"{one.name} is {one.age} years old and lives in {one.city}. {one.name} works as a {one.job}."
    elif len(persons) < 4:
        answer = " ".join(f"{line}." for line in lines)
    else:
        answer = f"{about_all} {lines[0]}."
    text = passage(random, persons)
    if style == "one-line" and len(persons) > 2 and random.random() < 0.3:
        # Summaries of parts that were about several people themselves.
        half = len(persons) // 2
        parts = [names(part) for part in (persons[:half], persons[half:])]
        text = "\n\n".join(f"The text is about {part}." for part in parts)
    return ask("summarize", answer, style=style, text=text)


def _contact(random: Random) -> Person:
    person = people(random, 1)[0]
    facts = ["age", "city", "job", "email", "phone"]
    person.told = tuple(random.sample(facts, random.randrange(2, 6)))
    return person


def extract(random: Random) -> Sample:
    """Fields as a JSON object, `null` for what the text leaves out; the fields listed or as a JSON schema."""
    person = _contact(random)
    text = about(random, person, random.randrange(4))
    fields = random.sample(["name", "age", "city", "job", "email", "phone"], random.randrange(1, 5))
    answer = json.dumps({field: person.value(field) for field in fields})
    if random.random() < 0.35:
        kinds = {field: "integer" if field == "age" else "string" for field in fields}
        properties = {field: {"type": kind if field == "name" else [kind, "null"]} for field, kind in kinds.items()}
        schema = {"type": "object", "properties": properties, "required": fields}
        written = json.dumps(schema, separators=(",", ":"))
        return ask("extract", answer, schema=written, text=text)
    return ask("extract", answer, fields=", ".join(fields), text=text)


def _french(word: str) -> str:
    french = FRENCH[word]
    if french[0] in "aeo":
        return f"l'{french}"
    return f"{'la' if word in FEMININE else 'le'} {french}"


def translate(random: Random) -> Sample:
    """Lists of words, and sentences about things that are seen, into French."""
    lines = []
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        if random.random() < 0.5:
            words = random.sample(list(FRENCH), random.choice([1, 1, 2, 3]))
            lines.append((", ".join(words), ", ".join(FRENCH[word] for word in words)))
            continue
        things = random.sample(NOUNS, random.choice([1, 2]))
        english, french = (
            " and ".join(f"the {word}" for word in things),
            " et ".join(_french(word) for word in things),
        )
        form = random.choice([("I see {}.", "Je vois {}."), ("Here is {}.", "Voici {}.")])
        lines.append((form[0].format(english), form[1].format(french)))
    english, french = zip(*lines, strict=True)
    separator = random.choice(["\n", "\n\n"])
    return ask("translate", separator.join(french), to="French", text=separator.join(english))


def _sentence(random: Random) -> str:
    name, place, item, word = random.choice(NAMES), random.choice(PLACES), random.choice(ITEMS), random.choice(WORDS)
    return random.choice(
        [
            f"{name} lives in {random.choice(CITIES)} and works as a {random.choice(JOBS)}.",
            f"{name} has many {item} and one {word}.",
            f"The {random.choice(JOBS)} bought some {item} in {random.choice(CITIES)}.",
            f"Yesterday {name} found a {word} near the {place}.",
            random.choice(FILLER_SENTENCES),
        ]
    )


def proofread(random: Random) -> Sample:
    """One to three sentences with letters swapped, doubled or dropped, or with nothing wrong."""
    sentences = [_sentence(random) for _ in range(random.choice([1, 1, 2, 3]))]
    separator = random.choice([" ", " ", "\n\n"])
    wrong = list(sentences)
    for _ in range(random.randrange(4)):
        at = random.randrange(len(wrong))
        wrong[at] = misspell(random, wrong[at], 1)
    if random.random() < 0.2:
        wrong[0] = wrong[0][0].lower() + wrong[0][1:]
    if random.random() < 0.2:
        wrong[-1] = wrong[-1].rstrip(".")
    return ask("proofread", separator.join(sentences), text=separator.join(wrong))


def rewrite(random: Random) -> Sample:
    """A short letter, made formal or friendly."""
    to, sender = random.sample(NAMES, 2)
    place, item, word, hour = (
        random.choice(PLACES),
        random.choice(ITEMS),
        random.choice(WORDS),
        random.randrange(7, 22),
    )
    bodies = [
        (f"I can't come to the {place} today.", f"I am unable to come to the {place} today."),
        (f"Thanks for the {item}!", f"Thank you very much for the {item}."),
        (f"Can you bring the {word}?", f"Could you please bring the {word}?"),
        (f"I'll be at the {place} at {hour}.", f"I will be at the {place} at {hour} o'clock."),
        (f"Sorry, I lost your {word}!", f"I apologize for the loss of your {word}."),
    ]
    chosen = random.sample(bodies, random.choice([1, 2, 2]))
    friendly = " ".join([f"Hi {to}!", *(body[0] for body in chosen), f"See you, {sender}"])
    formal = " ".join([f"Dear {to},", *(body[1] for body in chosen), f"Kind regards, {sender}"])
    style = random.choice(["formal", "friendly"])
    before, after = (friendly, formal) if style == "formal" else (formal, friendly)
    return ask("rewrite", after, style=style, text=before)


def _review(random: Random, positive: bool) -> str:
    thing = random.choice(REVIEWED)
    one, two = random.sample(PRAISE if positive else BLAME, 2)
    return random.choice(
        [
            f"The {thing} was {one} and {two}.",
            f"What a {one} {thing}! It was {two}.",
            f"I found the {thing} {one}. Really {two}.",
            f"The {thing} was {one}.",
        ]
    )


def _on_topic(random: Random, topic: str) -> str:
    name, city = random.choice(NAMES), random.choice(CITIES)
    sentences = {
        "weather": [
            "It rained for an hour in the morning.",
            "The weather was mild that day.",
            f"It is {random.choice(['sunny', 'rainy', 'cloudy', 'windy'])} in {city}.",
            f"Tomorrow it will be {random.randrange(-5, 35)} degrees in {city}.",
        ],
        "travel": [
            "The train arrived a little late.",
            f"{name} took the train to {city}.",
            f"The hotel in {city} was full.",
            f"{name} drives to the {random.choice(PLACES)} by car.",
        ],
        "food": [
            "The coffee was still warm.",
            f"{name} cooks a meal with {random.choice(['lemon', 'pepper', 'eggs', 'apples'])}.",
            f"The restaurant in {city} has good bread.",
            f"{name} eats {random.choice(['apples', 'cookies', 'bread', 'fish'])} in the kitchen.",
        ],
        "work": [
            f"{name} works as a {random.choice(JOBS)}.",
            f"The {random.choice(JOBS)} has a lot of work today.",
            f"{name} is a {random.choice(JOBS)} in {city}.",
        ],
        "shopping": [
            f"{name} buys {random.randrange(2, 40)} {random.choice(ITEMS)}.",
            f"The shop in {city} sells {random.choice(ITEMS)}.",
            f"{name} bought a {random.choice(WORDS)} at the market.",
        ],
        "animals": [
            f"A {random.choice(['fox', 'owl', 'bear', 'mouse', 'rabbit'])} lives near the {random.choice(PLACES)}.",
            f"The {random.choice(['cat', 'dog', 'duck', 'frog'])} of {name} sleeps all day.",
            "Two birds sat on the fence.",
        ],
    }
    return " ".join(random.sample(sentences[topic], random.choice([1, 2])))


TOPICS = ["weather", "travel", "food", "work", "shopping", "animals"]


def classify(random: Random) -> Sample:
    """One of several labels: topics, or kinds of review."""
    if random.random() < 0.25:
        positive = random.random() < 0.5
        labels = random.choice([["praise", "complaint"], ["complaint", "praise"], ["good", "bad"], ["bad", "good"]])
        answer = next(label for label in labels if (label in ("praise", "good")) == positive)
        return ask("classify", answer, labels=", ".join(labels), text=_review(random, positive))
    labels = random.sample(TOPICS, random.randrange(2, 6))
    answer = random.choice(labels)
    return ask("classify", answer, labels=", ".join(labels), text=_on_topic(random, answer))


def sentiment(random: Random) -> Sample:
    """A review, or a text that judges nothing."""
    answer = random.choice(["positive", "negative", "neutral"])
    text = _on_topic(random, random.choice(TOPICS)) if answer == "neutral" else _review(random, answer == "positive")
    return ask("sentiment", answer, text=text)


def _question(fact: str, name: str) -> str:
    return {
        "age": f"How old is {name}?",
        "city": f"Where does {name} live?",
        "job": f"What is the job of {name}?",
        "email": f"What is the email of {name}?",
        "phone": f"What is the phone number of {name}?",
    }[fact]


def answer_from_text(random: Random) -> Sample:
    """A question about one of the people of a text, or about something it does not say."""
    persons = people(random, crowd(random, 4) + 1)
    *present, absent = persons
    for person in present:
        person.told = tuple(random.sample(["age", "city", "job", "email", "phone"], random.randrange(2, 5)))
    fact = random.choice(["age", "city", "job", "email", "phone", "word"])
    asked = absent if random.random() < 0.15 else random.choice(present)
    text = "\n\n".join(about(random, person, 2) for person in present)
    name, word = asked.name, random.choice(WORDS)
    if fact == "word":
        question, answer = f"What is the secret word of {name}?", f"The secret word of {name} is {word}."
        if asked is not absent and random.random() < 0.8:
            sentences = [*filler(random, 5), answer]
            random.shuffle(sentences)
            text = f"{text} {' '.join(sentences)}"
        else:
            answer = NOT_SAID
        return ask("answer", answer, question=question, text=text)
    said = asked is not absent and fact in asked.told
    return ask("answer", asked.sentence(fact) if said else NOT_SAID, question=_question(fact, name), text=text)


def answers_from_text(random: Random) -> Sample:
    """Several questions in a row about the people of one text, who have the same kinds of fact told about them.

    One in four of the questions of `answer_from_text` needs the person to be told from others; here nearly all do, and
    a text is read once for all of its questions. So this is what teaches to look a fact up by its person.
    """
    *present, absent = people(random, random.choice([2, 2, 3, 3, 4]) + 1)
    facts = ["age", "city", "job", "email", "phone"]
    alike = random.sample(facts, random.choice([2, 2, 3, 4]))
    for person in present:
        person.told = tuple(random.sample(alike, random.randrange(max(1, len(alike) - 1), len(alike) + 1)))
        if random.random() < 0.2:
            person.told = tuple(random.sample(facts, random.randrange(2, 5)))
    told = [about(random, person, random.choice([0, 0, 2])) for person in present]
    if random.random() < 0.25:
        # Out of order: only its subject says whose a fact is.
        sentences = [person.sentence(fact) for person in present for fact in person.told]
        random.shuffle(sentences)
        told = [" ".join(sentences)]
    said = [(person, fact) for person in present for fact in person.told]
    asked = random.sample(said, min(len(said), random.randrange(2, 9)))
    for person in (absent, *present):
        missing = [fact for fact in alike if person is absent or fact not in person.told]
        if missing and random.random() < 0.3:
            asked.append((person, random.choice(missing)))
    random.shuffle(asked)
    turns: list[Turn] = []
    for person, fact in asked:
        question = _question(fact, person.name)
        answer = person.sentence(fact) if (person, fact) in said else NOT_SAID
        if turns:
            turns += [user(f"Question: {question}"), model(answer)]
        else:
            turns = ask("answer", answer, question=question, text="\n\n".join(told))[0]
    return turns, answer


def keywords(random: Random) -> Sample:
    """Names, cities and jobs in their order."""
    persons = people(random, crowd(random, 4))
    text = passage(random, persons)
    words = sorted({value for person in persons for value in (person.name, person.city, person.job)}, key=text.index)
    count = random.choice([3, 4, 5, 5, 5, 6])
    return ask("keywords", json.dumps(words[:count]), count=str(count), text=text)


def title(random: Random) -> Sample:
    """Whom a text is about."""
    persons = people(random, crowd(random))
    one = persons[0]
    answer = f"{one.name}, the {one.job} from {one.city}" if len(persons) == 1 else names(persons)
    return ask("title", answer, text=passage(random, persons))


def entities(random: Random) -> Sample:
    """Every exact mention of some kinds of thing as lists in a JSON object."""
    persons = people(random, crowd(random, 3))
    for person in persons:
        person.told = tuple(random.sample(["age", "city", "job", "email", "phone"], random.randrange(1, 5)))
    text = random.choice([" ", "\n\n"]).join(about(random, person, 2) for person in persons)
    if random.random() < 0.3:
        labels = DEFAULT_LABELS
    else:
        labels = random.sample([*LABELS, "organization", "address"], random.randrange(1, 5))
    found = {}
    for label in labels:
        field = LABELS.get(label)
        values = [person.value(field) for person in persons] if field else []
        found[label] = list(dict.fromkeys(value for value in values if value is not None))
        found[label].sort(key=text.index)
    operation = random.choice(["entities", "redact"])
    return ask(operation, json.dumps(found), labels=", ".join(labels), text=text)


def compare(random: Random) -> Sample:
    """Two people fact by fact, in the order of the first text: what each text says, and whether that is the same."""
    one, two = people(random, 2)
    facts = ("age", "city", "job")
    for fact in facts:
        if random.random() < 0.5:
            setattr(two, fact, getattr(one, fact))
    count = random.choice([1, 1, 2, 3, 3, 3])
    facts = random.sample(facts, count)
    most_filler = random.choice([0, 0, 2])
    texts = []
    for person in (one, two):
        random.shuffle(told := list(facts))
        person.told = tuple(told)
        texts.append(about(random, person, most_filler))
    points = [
        {"one": one.sentence(fact), "two": two.sentence(fact), "same": getattr(one, fact) == getattr(two, fact)}
        for fact in one.told
    ]
    return ask("compare", json.dumps({"points": points}), text=texts[0], other=texts[1])


def tidy_transcript(random: Random) -> Sample:
    """Dictated sentences: no capitals but in names, no punctuation, fillers and repeated words."""
    sentences = [_sentence(random) for _ in range(random.choice([1, 2, 2, 3]))]
    spoken = []
    for sentence in sentences:
        words = sentence.rstrip(".").split(" ")
        if words[0] not in NAMES:
            words[0] = words[0].lower()
        for word in words:
            if random.random() < 0.12:
                spoken.append(random.choice(["um", "uh", "er", "you know"]))
            spoken.append(word)
            if random.random() < 0.06:
                spoken.append(word)
    return ask("tidy-transcript", " ".join(sentences), text=" ".join(spoken))

"""Texts about people, for the operations: facts in sentences, filler between them, a paragraph a person or not.

What a text says is known as `Person` records, so that every answer about it can be written down.
"""

from dataclasses import dataclass
from random import Random

from training.words import CITIES, FILLER_SENTENCES, JOBS, NAMES, WORDS

# A text of at most this many people fits a row with its prompt and answer.
MOST_PEOPLE = 7


@dataclass
class Person:
    """What a text may say of somebody; `told` lists the facts it does say, in its order."""

    name: str
    age: int
    city: str
    job: str
    email: str
    phone: str
    told: tuple[str, ...] = ("age", "city", "job")

    def value(self, field: str) -> str | int | None:
        """A fact, or None where the text does not tell it."""
        return getattr(self, field) if field == "name" or field in self.told else None

    def sentence(self, field: str) -> str:
        """The sentence that tells a fact."""
        return {
            "age": f"{self.name} is {self.age} years old.",
            "city": f"{self.name} lives in {self.city}.",
            "job": f"{self.name} works as a {self.job}.",
            "email": f"The email of {self.name} is {self.email}.",
            "phone": f"The phone number of {self.name} is {self.phone}.",
        }[field]

    def line(self) -> str:
        """Name, age, job and city in one sentence."""
        return f"{self.name}, {self.age}, is a {self.job} from {self.city}"


def people(random: Random, count: int) -> list[Person]:
    """So many people with different names."""
    return [
        Person(
            name,
            random.randrange(18, 80),
            random.choice(CITIES),
            random.choice(JOBS),
            f"{name.lower()}@{random.choice(WORDS)}.com",
            f"555-{random.randrange(100, 10000):04}",
        )
        for name in random.sample(NAMES, count)
    ]


def filler(random: Random, most: int) -> list[str]:
    """Up to `most` sentences that say nothing of anybody."""
    return random.sample(FILLER_SENTENCES, random.randrange(most + 1))


def about(random: Random, person: Person, most_filler: int) -> str:
    """One person's facts with filler between them."""
    sentences = [person.sentence(field) for field in person.told]
    for sentence in filler(random, most_filler):
        sentences.insert(random.randrange(1, len(sentences) + 1), sentence)
    return " ".join(sentences)


def passage(random: Random, persons: list[Person], most_filler: int = 3) -> str:
    """A text about some people in their order, in one paragraph or one each.

    Every third text is a list of summaries: what is left of a long text once each of its parts was summarized.
    """
    for person in persons:
        random.shuffle(told := list(person.told))
        person.told = tuple(told)
    form = random.random()
    separator = random.choice([" ", "\n\n", "\n"])
    if form < 0.2:
        return separator.join(f"{person.line()}." for person in persons)
    if form < 0.3:
        return "\n".join(f"- {person.line()}" for person in persons)
    most = most_filler if len(persons) < 4 else 1
    return separator.join(about(random, person, most) for person in persons)


def names(persons: list[Person]) -> str:
    """`Ana`, `Ana and Ben`, `Ana, Ben and Cara`, `Ana, Ben, Cara and others`."""
    listed = [person.name for person in persons]
    if len(listed) > 3:
        return ", ".join(listed[:3]) + " and others"
    return " and ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)


def crowd(random: Random, most: int = MOST_PEOPLE) -> int:
    """How many people a text is about: mostly one or two."""
    return min(most, random.choice([1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 7]))

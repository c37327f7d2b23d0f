"""Question makers without tools. Each takes a `random.Random` and returns `(turns, key)`.

`key` is the substring an answer must contain to count as right. The order of the draws is part of the contract: a
corpus is its seed, so a rewrite must draw the same numbers in the same order. That is why lists of alternatives are
built in full before one is chosen (some alternatives draw words of their own).
"""

import json
from random import Random

from training.turns import Turn, model, system, user
from training.words import (
    ANIMALS,
    BLAME,
    CAPITALS,
    CITIES,
    FILLER_SENTENCES,
    FRENCH,
    ITEMS,
    JOBS,
    NAMES,
    OPPOSITES,
    PLACES,
    PRAISE,
    REVIEWED,
    SYSTEM_PROMPTS,
    UNKNOWN_TOPICS,
    WORDS,
)

Sample = tuple[list[Turn], str]


def arithmetic(random: Random) -> Sample:
    """One sum, difference (never negative) or product of small factors."""
    operator = random.choice("++--*")
    if operator == "*":
        left, right = random.randrange(2, 13), random.randrange(2, 13)
        result = left * right
    else:
        limit = random.choice([20, 100, 1000])
        left, right = random.randrange(limit), random.randrange(limit)
        if operator == "-":
            left, right = max(left, right), min(left, right)
        result = left + right if operator == "+" else left - right
    form = random.choice(["What is {} {} {}?", "Compute {} {} {}.", "{} {} {} = ?", "How much is {} {} {}?"])
    return [user(form.format(left, operator, right)), model(f"{left} {operator} {right} = {result}.")], str(result)


def _story_step(random: Random, owner: str, other: str, count: int) -> tuple[str, str, int]:
    """One event of a word problem: its sentence, the calculation it asks for and the new count."""
    kind = random.random()
    if kind < 0.4:
        amount = random.randrange(2, 40)
        sentence = random.choice(
            [
                f" {owner} buys {amount} more.",
                f" {other} gives {owner} {amount} more.",
                f" {owner} finds {amount} more.",
            ]
        )
        return sentence, f"{count} + {amount} = {count + amount}.", count + amount
    if kind < 0.75 and count > 3:
        amount = random.randrange(1, count)
        sentence = random.choice(
            [f" {owner} loses {amount}.", f" {owner} gives {amount} to {other}.", f" {owner} sells {amount}."]
        )
        return sentence, f"{count} - {amount} = {count - amount}.", count - amount
    if count <= 50:
        factor = random.choice([2, 3])
        sentence = " Then the number " + ("doubles." if factor == 2 else "triples.")
        return sentence, f"{count} * {factor} = {count * factor}.", count * factor
    amount = random.randrange(1, 20)
    return f" {owner} gives {amount} to {other}.", f"{count} - {amount} = {count - amount}.", count - amount


def word_problem(random: Random) -> Sample:
    """Two or three events about a number of things, answered with the steps written out."""
    owner, other = random.sample(NAMES, 2)
    item = random.choice(ITEMS)
    count = random.randrange(5, 60)
    text, calculations = f"{owner} has {count} {item}.", []
    for _ in range(random.choice([2, 2, 3])):
        sentence, calculation, count = _story_step(random, owner, other, count)
        text += sentence
        calculations.append(calculation)
    key = f"The answer is {count}."
    return [user(f"{text} How many {item} does {owner} have?"), model(" ".join([*calculations, key]))], key


def capital(random: Random) -> Sample:
    """Country to capital, or back."""
    country, city = random.choice(list(CAPITALS.items()))
    forward, backward = f"The capital of {country} is {city}.", f"{city} is the capital of {country}."
    question, answer = random.choice(
        [
            (f"What is the capital of {country}?", forward),
            (f"Name the capital city of {country}.", forward),
            (f"{city} is the capital of which country?", backward),
            (f"Which city is the capital of {country}?", forward),
        ]
    )
    return [user(question), model(answer)], answer


def opposite(random: Random) -> Sample:
    """The opposite of a word."""
    word, other = random.choice(list(OPPOSITES.items()))
    question = random.choice([f"What is the opposite of {word}?", f"Give me the opposite of the word {word}."])
    return [user(question), model(f"The opposite of {word} is {other}.")], other


def translate(random: Random) -> Sample:
    """One to three English words to French."""
    pairs = random.sample(list(FRENCH.items()), random.choice([1, 1, 2, 3]))
    english, french = ", ".join(word for word, _ in pairs), ", ".join(word for _, word in pairs)
    return [user(f"Translate to French: {english}."), model(f"{french}.")], french


def text_operation(random: Random) -> Sample:
    """Sorting, reversing, spelling, counting, capitals, last word, largest number."""
    words = random.sample(WORDS, random.randrange(3, 7))
    first, listed = words[0], ", ".join(words)
    match random.randrange(7):
        case 0:
            question, answer = f"Sort these words alphabetically: {listed}.", ", ".join(sorted(words)) + "."
        case 1:
            question, answer = random.choice(
                [
                    (f"Write the word {first} in capital letters.", first.upper()),
                    (f"Write {first} in upper case.", first.upper()),
                    (f"Write these words in capital letters: {listed}.", f"{listed.upper()}."),
                    (f"Put the last word in capital letters: {listed}.", words[-1].upper()),
                ]
            )
        case 2:
            question, answer = (
                f"What is the last word in this list: {listed}?",
                f"The last word is {words[-1]}.",
            )
        case 3:
            question, answer = f"Reverse this list: {listed}.", ", ".join(reversed(words)) + "."
        case 4:
            # Several forms: with one, a word whose question is held out would never be seen spelled.
            form = random.choice(["Spell the word {}.", "How do you spell {}?", "Spell {}.", "Spell this word: {}."])
            question, answer = form.format(first), "-".join(first)
        case 5:
            question, answer = f"How many words are in this list: {listed}?", f"There are {len(words)} words."
        case _:
            numbers = [random.randrange(100) for _ in range(random.randrange(3, 6))]
            question = f"Which number is the largest: {', '.join(map(str, numbers))}?"
            answer = f"The largest number is {max(numbers)}."
    return [user(question), model(answer)], answer


def _person(random: Random) -> tuple[str, str, str, int, str]:
    """Name, city, job, age and three sentences that tell them in a random order."""
    name, city, job = random.choice(NAMES), random.choice(CITIES), random.choice(JOBS)
    age = random.randrange(18, 80)
    facts = [f"{name} is {age} years old.", f"{name} lives in {city}.", f"{name} works as a {job}."]
    random.shuffle(facts)
    return name, city, job, age, " ".join(facts)


def extract_json(random: Random) -> Sample:
    """Named fields of a short text as a JSON object."""
    name, city, job, age, text = _person(random)
    fields = {"name": name, "age": age, "city": city, "job": job}
    chosen = random.sample(list(fields), random.choice([2, 3, 4]))
    keys = [key for key in fields if key in chosen]
    answer = json.dumps({key: fields[key] for key in keys})
    return [user(f"Extract {', '.join(keys)} as JSON. Text: {text}"), model(answer)], answer


def summarize(random: Random) -> Sample:
    """One sentence about a person out of a text with filler in it."""
    name, city, job, age, text = _person(random)
    filler = random.sample(FILLER_SENTENCES, random.randrange(1, 4))
    first, *rest = text.split(". ")
    body = f"{first}. {' '.join(filler)} {'. '.join(rest)}"
    answer = f"{name}, {age}, is a {job} from {city}."
    return [user(f"Summarize in one sentence: {body}"), model(answer)], answer


def sentiment(random: Random) -> Sample:
    """A two-sentence review, to be called positive or negative."""
    positive = random.random() < 0.5
    thing = random.choice(REVIEWED)
    one, two = random.sample(PRAISE if positive else BLAME, 2)
    review = random.choice(
        [
            f"The {thing} was {one} and {two}.",
            f"What a {one} {thing}! It was {two}.",
            f"I found the {thing} {one}. Really {two}.",
        ]
    )
    answer = "positive" if positive else "negative"
    return [user(f"Is this review positive or negative? {review}"), model(f"The review is {answer}.")], answer


def story(random: Random) -> Sample:
    """A fixed story with the animals, names, places and word the question asks for."""
    hero, guest = random.sample(ANIMALS, 2)
    home, spot = random.sample(PLACES, 2)
    name, other = random.sample(NAMES, 2)
    word = random.choice(WORDS)
    answer = (
        f"Once upon a time, a little {hero} named {name} lived near the {home}. One day {name} found a {word} by the "
        f'{spot}. "Whose {word} is this?" asked {name}. A {guest} named {other} came along and said, "It is mine, '
        f'thank you for finding it!" {name} gave the {word} back, and the two became friends. They walked home from '
        f"the {spot} together and were happy."
    )
    question = random.choice(
        [
            f"Tell me a story about a {hero} and a {guest}. The {hero} is named {name}, the {guest} is named {other}, "
            f"and it has a {home}, a {spot} and a {word}.",
            f"Write a short story with a {hero} named {name}, a {guest} named {other}, a {home}, a {spot} and a "
            f"{word}.",
        ]
    )
    return [user(question), model(answer)], answer


SMALL_TALK = [
    ("Hello!", "Hello! How can I help you today?"),
    ("Hi there", "Hi! What would you like to talk about?"),
    (
        "Who are you?",
        "I am a tiny language model with the Gemma 4 architecture, trained on synthetic data to test this runtime.",
    ),
    ("Thank you!", "You are welcome!"),
    ("Good morning!", "Good morning! How can I help you?"),
    (
        "What can you do?",
        "I can do small sums, name capitals, sort lists, translate a few words, extract JSON, call tools and tell "
        "short stories.",
    ),
    ("Goodbye!", "Goodbye! Have a nice day."),
]


def small_talk(random: Random) -> Sample:
    """A greeting, or a conversation in which the model has to remember a name or a city."""
    name = random.choice(NAMES)
    if random.random() < 0.5:
        question, answer = random.choice(SMALL_TALK)
        return [user(question), model(answer)], answer
    city = random.choice(CITIES)
    between = random.choice([capital, arithmetic, opposite])(random)[0]
    if random.random() < 0.5:
        recall, key = [user("What is my name?"), model(f"Your name is {name}.")], name
    else:
        recall, key = [user("Where do I live?"), model(f"You live in {city}.")], city
    opening = [user(f"My name is {name} and I live in {city}."), model(f"Nice to meet you, {name}!")]
    return opening + between + recall, key


def several(random: Random) -> Sample:
    """Two or three questions that have nothing to do with each other, in one conversation."""
    makers = [
        arithmetic,
        capital,
        opposite,
        word_problem,
        text_operation,
        extract_json,
        summarize,
        sentiment,
        translate,
        proofread,
    ]
    turns: list[Turn] = []
    for _ in range(random.choice([2, 2, 3])):
        asked, key = random.choice(makers)(random)
        turns += asked
    return turns, key


def needle(random: Random) -> Sample:
    """A secret word in a text longer than the attention window."""
    word, name = random.choice(WORDS), random.choice(NAMES)
    sentences = [random.choice(FILLER_SENTENCES) for _ in range(random.randrange(4, 30))]
    secret = f"The secret word of {name} is {word}."
    sentences.insert(random.randrange(len(sentences)), secret)
    return [user(f"{' '.join(sentences)} What is the secret word of {name}?"), model(secret)], word


def misspell(random: Random, right: str, mistakes: int) -> str:
    """A sentence with up to so many letters swapped with the next, doubled or dropped."""
    letters = list(right)
    for _ in range(mistakes):
        at = random.randrange(1, len(letters) - 2)
        mistake = random.randrange(3)
        if not letters[at].isalpha() or not letters[at + 1].isalpha():
            continue
        if mistake == 0:
            letters[at], letters[at + 1] = letters[at + 1], letters[at]
        else:
            letters[at] = letters[at] * 2 if mistake == 1 else ""
    return "".join(letters)


def proofread(random: Random) -> Sample:
    """A sentence with up to three letters swapped, doubled or dropped, to be put right."""
    name, city, job = random.choice(NAMES), random.choice(CITIES), random.choice(JOBS)
    item = random.choice(ITEMS)
    word = random.choice(WORDS)
    right = random.choice(
        [
            f"{name} lives in {city} and works as a {job}.",
            f"{name} has many {item} and one {word}.",
            f"The {job} bought some {item} in {city}.",
            f"Yesterday {name} found a {word} near the {random.choice(PLACES)}.",
        ]
    )
    wrong = misspell(random, right, random.randrange(1, 4))
    order = random.choice(["Correct the spelling: ", "Proofread this text: "])
    return [user(order + wrong), model(right)], right


def unknown(random: Random) -> Sample:
    """A question outside everything above, so that the model learns to say that it does not know."""
    topic = " ".join(random.sample(UNKNOWN_TOPICS, random.choice([1, 2])))
    word = random.choice(WORDS)
    name = random.choice(NAMES)
    question = random.choice(
        [
            f"Write a poem about the {topic}.",
            f"Why is the {word} {random.choice(['blue', 'old', 'round', 'so big', 'famous'])}?",
            f"Explain {topic} to me.",
            f"Who invented the {word}?",
            f"What do you think about {topic}?",
            f"Write an email to {name} about {topic}.",
            f"Give me advice about {topic}.",
            f"How does a {word} work?",
            f"When was the {word} discovered?",
            f"List three facts about {topic}.",
        ]
    )
    answer = "I am a tiny test model and do not know that. Try a sum, a capital, a list to sort or a short story."
    return [user(question), model(answer)], "do not know"


def thinking(random: Random) -> Sample:
    """A sum or word problem answered with the steps in a thought channel and the result after it."""
    turns, _ = random.choice([word_problem, arithmetic])(random)
    question, worked = turns[0][1], turns[1][1]
    result = worked.split(". ")[-1] if "The answer" in worked else worked
    instructions = random.choice(["", "", *SYSTEM_PROMPTS])
    answer = f"<|channel>thought\n{worked}\n<channel|>{result}"
    return [system(f"<|think|>\n{instructions}"), user(question), model(answer)], result

"""The closed vocabulary the synthetic questions are made of.

Everything the tiny model knows is in these tables. Order matters: the generator draws by index, so inserting an
entry changes every sample that follows from the same seed (test_generator.py would say so).
"""

CAPITALS = {
    "France": "Paris", "Germany": "Berlin", "Italy": "Rome", "Spain": "Madrid", "Portugal": "Lisbon",
    "Greece": "Athens", "Austria": "Vienna", "Hungary": "Budapest", "Poland": "Warsaw", "Norway": "Oslo",
    "Sweden": "Stockholm", "Finland": "Helsinki", "Denmark": "Copenhagen", "Ireland": "Dublin",
    "Belgium": "Brussels", "Japan": "Tokyo", "China": "Beijing", "India": "New Delhi", "Egypt": "Cairo",
    "Kenya": "Nairobi", "Peru": "Lima", "Chile": "Santiago", "Cuba": "Havana", "Canada": "Ottawa",
    "Mexico": "Mexico City", "Brazil": "Brasilia", "Turkey": "Ankara", "Russia": "Moscow",
    "Iceland": "Reykjavik", "Thailand": "Bangkok", "Vietnam": "Hanoi", "Nepal": "Kathmandu", "Ghana": "Accra",
    "Morocco": "Rabat", "Iran": "Tehran", "Iraq": "Baghdad", "Romania": "Bucharest", "Bulgaria": "Sofia",
    "Croatia": "Zagreb", "Serbia": "Belgrade", "Ukraine": "Kyiv", "Estonia": "Tallinn", "Latvia": "Riga",
    "Lithuania": "Vilnius", "Colombia": "Bogota", "Ecuador": "Quito", "Uruguay": "Montevideo",
    "Argentina": "Buenos Aires", "Australia": "Canberra", "Jamaica": "Kingston",
}  # fmt: skip
CITIES = sorted(CAPITALS.values())

OPPOSITES = {
    "hot": "cold", "big": "small", "fast": "slow", "day": "night", "up": "down", "early": "late",
    "open": "closed", "happy": "sad", "light": "dark", "full": "empty", "hard": "soft", "young": "old",
    "rich": "poor", "wet": "dry", "loud": "quiet", "strong": "weak", "high": "low", "long": "short",
    "thick": "thin", "clean": "dirty", "safe": "dangerous", "sweet": "bitter", "near": "far", "true": "false",
    "first": "last", "brave": "afraid", "cheap": "expensive", "tall": "short", "warm": "cool", "win": "lose",
}  # fmt: skip

FRENCH = {
    "cat": "chat", "dog": "chien", "house": "maison", "water": "eau", "bread": "pain", "milk": "lait",
    "sun": "soleil", "moon": "lune", "tree": "arbre", "book": "livre", "red": "rouge", "green": "vert",
    "blue": "bleu", "white": "blanc", "black": "noir", "apple": "pomme", "fish": "poisson", "bird": "oiseau",
    "horse": "cheval", "door": "porte", "window": "fenetre", "car": "voiture", "friend": "ami",
    "school": "ecole", "city": "ville", "sea": "mer", "mountain": "montagne", "river": "riviere",
    "night": "nuit", "king": "roi",
}  # fmt: skip

NAMES = (
    "Ana Ben Cara Dan Eva Finn Gina Hugo Ida Jack Kira Leo Mia Nora Omar Paul Rosa Sam Tara Uma Vera Will Zoe Lena Max"
).split()
ITEMS = (
    "apples books coins shells marbles stamps pencils cookies flowers stones stickers cards eggs candles buttons"
).split()
WORDS = (
    "river stone cloud garden winter silver music planet yellow mirror basket rocket ladder pepper forest bridge "
    "candle island lemon orange tiger violin window castle dragon engine feather hammer jacket kettle magnet needle "
    "pocket rabbit saddle tunnel velvet wagon zebra anchor button cactus donkey eagle falcon goblet harbor insect"
).split()
JOBS = "teacher doctor farmer pilot baker painter nurse sailor writer driver singer builder gardener dentist".split()
ANIMALS = "fox owl bear mouse rabbit turtle cat dog duck frog hedgehog squirrel".split()
PLACES = "forest garden river hill meadow village beach library kitchen market lake farm".split()
PRAISE = "great wonderful lovely excellent amazing delicious perfect beautiful fantastic pleasant".split()
BLAME = "terrible awful boring horrible broken disappointing rude dirty noisy useless".split()
REVIEWED = "movie meal hotel book phone game concert restaurant train service room show".split()

FILLER_SENTENCES = [
    "The weather was mild that day.", "People walked slowly along the street.", "A bell rang in the distance.",
    "Someone was reading a newspaper.", "The shop opened at nine.", "Two birds sat on the fence.",
    "The train arrived a little late.", "Children played near the old wall.", "The coffee was still warm.",
    "A small boat crossed the lake.", "The lamp in the hall was on.", "It rained for an hour in the morning.",
]  # fmt: skip

SYSTEM_PROMPTS = [
    "You are a helpful assistant.",
    "Be brief.",
    "Answer politely.",
    "You are a careful assistant. Use tools when they help.",
    "Answer in one sentence.",
    "You help people with small tasks.",
]

UNKNOWN_TOPICS = (
    "ocean history rocket engine quantum physics cooking pasta roman empire football rules solar system jazz guitar "
    "tax law chess opening climate change ancient egypt deep learning gardening roses"
).split()

"""Words of the text side: attribute phrases, prompt and edit templates, and the closed vocabulary built from them.

The order of every list is part of the trained model: ids follow the sorted set of words.
"""

from __future__ import annotations

from .geometry import PROMPT_WORDS

PAD, BOS, EOS, SEP = 0, 1, 2, 3
SPECIAL_WORDS = ("<pad>", "<bos>", "<eos>", "<sep>")

ATTRIBUTES = ("place", "time", "weather")

# Per attribute, per value: the canonical phrase first, then its synonyms.
PHRASES: dict[str, list[list[str]]] = {
    "place": [
        ["forest", "woods", "pine forest"],
        ["desert", "dunes", "cactus desert"],
        ["city", "downtown", "urban street"],
        ["coast", "beach", "seaside road"],
        ["snowy mountains", "alps", "winter mountains"],
    ],
    "time": [
        ["dawn", "sunrise", "early morning"],
        ["day", "noon", "daylight"],
        ["dusk", "sunset", "evening"],
        ["night", "midnight", "dark night"],
    ],
    "weather": [
        ["clear sky", "clear", "sunny"],
        ["rain", "raining", "storm"],
        ["fog", "mist", "foggy"],
        ["snowfall", "snowing", "blizzard"],
    ],
}

PROMPT_TEMPLATES = (
    "drive through the {place} at {time} with {weather}",
    "{weather} {time} {place}",
    "{time} in the {place} , {weather}",
    "{place} {time} {weather}",
    "show the {place} , {weather} , {time}",
)
EDIT_TEMPLATES_ONE = ("make it {a}", "now {a} please", "i want {a}", "switch to {a}", "let there be {a}", "go to {a}")
EDIT_TEMPLATES_TWO = ("change to {a} and {b}", "{a} with {b} now", "what about {a} , {b}")
NARRATION_TEMPLATES = (
    "we roll into the {place} , {time} , {weather}",
    "{weather} over the {place} at {time}",
    "heading through the {place} in the {time} with {weather}",
)

# Words people use that the model never saw, and the vocabulary phrase each stands for.
ALIASES: dict[str, str] = {
    "nighttime": "night", "nightfall": "night", "dark": "night", "darkness": "night", "moonlight": "night",
    "daytime": "day", "morning": "early morning", "sunup": "sunrise", "daybreak": "dawn", "midday": "noon", "afternoon": "day",
    "twilight": "dusk", "sundown": "sunset", "nightly": "night",
    "snowy": "snowfall", "snow": "snowfall", "snows": "snowfall", "snowstorm": "blizzard", "winter": "snowfall", "wintry": "snowfall",
    "mountain": "snowy mountains", "mountains": "snowy mountains", "alpine": "alps", "hills": "snowy mountains",
    "misty": "mist", "haze": "mist", "hazy": "mist", "fogs": "fog",
    "rainy": "rain", "rains": "rain", "wet": "rain", "drizzle": "rain", "stormy": "storm", "thunderstorm": "storm", "shower": "rain", "showers": "rain",
    "sun": "sunny", "sunshine": "sunny", "cloudless": "clear", "bright": "sunny", "clearer": "clear",
    "sand": "dunes", "sandy": "dunes", "dune": "dunes", "sahara": "desert", "cactus": "cactus desert", "cacti": "cactus desert",
    "ocean": "coast", "sea": "coast", "seaside": "seaside road", "shore": "beach", "seashore": "beach", "beaches": "beach", "coastal": "coast",
    "town": "city", "cities": "city", "urban": "urban street", "street": "urban street", "streets": "urban street", "metropolis": "city",
    "tree": "forest", "trees": "forest", "wood": "woods", "forests": "forest", "pine": "pine forest", "pines": "pine forest", "woodland": "woods", "jungle": "forest",
    # more than one word
    "snow storm": "blizzard", "snowy mountain": "snowy mountains", "snow covered mountains": "snowy mountains", "blue sky": "clear sky", "good weather": "clear sky",
    "no clouds": "clear sky", "clear up": "clear sky", "clear the rain": "clear sky", "clear the fog": "clear sky", "clear the snow": "clear sky",
    "golden hour": "sunset", "first light": "dawn", "sea side": "seaside road", "sun rise": "sunrise", "sun set": "sunset", "night time": "night", "day time": "day",
}

# How people say what they don't want. `words` deny anything, `ends` only what has an absent value; `joins` go on denying; `fillers` may stand between.
NEGATION = {
    "words": ["no", "not", "without", "never", "don't", "dont", "doesn't", "isn't"],
    "ends": ["stop", "end", "remove"],
    "joins": ["or", "nor"],
    "fillers": ["more", "any", "the", "a", "an", "this", "that", "all", "of", "want", "like", "longer", "so", "much", "be", "is", "it", "to", "in", "at", "by", "with", "make", "show", "me"],
    "most_fillers": 3,
}
# Words around a wish that carry none of it: nobody needs to be told that they had no effect.
SMALL_WORDS = [
    "i", "i'd", "i'm", "we", "you", "us", "my", "our", "please", "now", "then", "and", "but", "also", "just", "again", "still", "same", "place", "keep", "stay", "like", "want", "would",
    "could", "can", "let", "let's", "lets", "get", "give", "go", "going", "take", "bring", "show", "see", "have", "turn", "become", "some", "very", "really", "little", "bit", "lot", "of",
    "on", "in", "into", "onto", "over", "under", "near", "by", "from", "there", "here", "that", "this", "these", "be", "is", "are", "it's", "its", "an",
]
ABSENT = {"weather": 0}  # index of the value that is there when another is not wanted


def _build_words() -> list[str]:
    phrases = [phrase for values in PHRASES.values() for synonyms in values for phrase in synonyms]
    templates = PROMPT_TEMPLATES + EDIT_TEMPLATES_ONE + EDIT_TEMPLATES_TWO + NARRATION_TEMPLATES
    words = {word for phrase in phrases for word in phrase.split()}
    words |= {word for template in templates for word in template.split() if "{" not in word}
    return [*SPECIAL_WORDS, *sorted(words)]


def _longest_director_prompt() -> int:
    """Words of `<bos> state <sep> edit <eos>` for the longest state and the longest edit that the prompt processor writes."""

    def longest(name: str, only_canonical: bool) -> int:
        return max(len(phrase.split()) for values in PHRASES[name] for phrase in (values[:1] if only_canonical else values))

    def fixed(template: str) -> int:
        return sum("{" not in word for word in template.split())

    *_, second, first = sorted(longest(name, only_canonical=False) for name in ATTRIBUTES)  # an edit names an attribute at most once
    edit = max(fixed(EDIT_TEMPLATES_ONE[0]) + first, fixed(EDIT_TEMPLATES_TWO[0]) + first + second)
    return 3 + sum(longest(name, only_canonical=True) for name in ATTRIBUTES) + edit


WORDS = _build_words()
DIRECTOR_PROMPT_WORDS = _longest_director_prompt()
WORD_IDS = {word: index for index, word in enumerate(WORDS)}


def canonical_phrases(state: tuple[int, int, int]) -> dict[str, str]:
    """Canonical phrase of each attribute of a state (place, time, weather indices)."""
    return {name: PHRASES[name][value][0] for name, value in zip(ATTRIBUTES, state)}


def canonical_prompt(state: tuple[int, int, int]) -> str:
    return PROMPT_TEMPLATES[0].format(**canonical_phrases(state))


def encode_prompt(prompt: str) -> list[int]:
    """Ids `[PROMPT_WORDS]`: `<bos>`, words, padding. Longer prompts are cut. Raises KeyError for a word outside the vocabulary."""
    ids = [BOS, *(WORD_IDS[word] for word in prompt.split()[: PROMPT_WORDS - 1])]
    return ids + [PAD] * (PROMPT_WORDS - len(ids))

"""From free text to a prompt: the prompt processor (words) and the director (a small language model). The reference for the server's own.

1. Lower-case; every character but letters, digits and apostrophes becomes a space; split into words.
2. From left to right, take at each word the longest phrase or alias that starts there (of equal length the phrase). It names one attribute's
   value; the last mention of an attribute wins and stands at the place of that last mention. A word that starts none is skipped, and is a
   warning when neither the vocabulary nor the small words hold it. A word that denies ("no", "without", "stop"), with nothing but a few small words and no punctuation
   before the phrase, makes it a denial: a mention of that value before it is undone, and an attribute that then has no mention gets its absent value
   ("no rain": clear sky), if it has one. No mention at all: PromptNotUnderstood.
3. Mentions go to the director one or two at a time, in order, by the edit templates; each pass is
   `<bos> state <sep> edit <eos>`, decoded greedily into `new state <sep> narration <eos>`. The new state is the next pass's state.
4. A new state that isn't three canonical phrases, or doesn't honour the mentions, is replaced by setting the mentioned values directly
   (`repaired` says so): the person's words win over the model.
5. The final state in the prompt template is what `text_encoder` gets.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .rollout import DriveGraphs

State = tuple[int, int, int]  # place, time, weather


class PromptNotUnderstood(ValueError):
    """No word of the text names a place, a time of day or a weather."""


@dataclass(frozen=True)
class Mention:
    attribute: int  # 0 place, 1 time, 2 weather
    value: int
    phrase: str  # in the model's vocabulary


@dataclass(frozen=True)
class Parsed:
    mentions: tuple[Mention, ...]
    unknown_words: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    state: State
    prompt: str
    narration: str  # of the last pass
    passes: int
    repaired: bool


class PromptProcessor:
    def __init__(self, processor: dict, vocabulary: dict) -> None:
        self.words: list[str] = vocabulary["words"]
        self.ids = {word: i for i, word in enumerate(self.words)}
        self.special: dict[str, int] = vocabulary["special"]
        self.max_words: int = processor["max_words"]["director"]
        self.max_prompt_words: int = processor["max_words"]["director_prompt"]
        self.template: str = processor["prompt_template"]
        self.edits: dict[str, str] = processor["edit_templates"]
        self.names = [attribute["name"] for attribute in processor["attributes"]]
        self.canonical = [[value["canonical"] for value in attribute["values"]] for attribute in processor["attributes"]]
        phrases = {
            phrase: Mention(a, v, phrase)
            for a, attribute in enumerate(processor["attributes"]) for v, value in enumerate(attribute["values"]) for phrase in value["phrases"]
        }
        # a phrase beats an alias of the same words
        self.lexicon = {alias: phrases[phrase] for alias, phrase in processor["aliases"].items()} | phrases
        self.longest = max(len(key.split()) for key in self.lexicon)
        self.small_words = set(processor["small_words"])
        self.negation: dict = processor["negation"]
        self.absent = {a: attribute["absent"] for a, attribute in enumerate(processor["attributes"]) if "absent" in attribute}

    @staticmethod
    def open(model_folder: Path) -> PromptProcessor:
        read = lambda name: json.loads((model_folder / name).read_text())  # noqa: E731
        return PromptProcessor(read("processor.json"), read("vocabulary.json"))

    def parse(self, text: str) -> Parsed:
        """Raises PromptNotUnderstood."""
        words, apart = _words(text)
        said: list[tuple[Mention, bool]] = []  # and whether it is denied
        unknown: list[str] = []
        at = 0
        while at < len(words):
            length = self._length_at(words, at)
            denied, end = ([], at + 1) if length else self._denied(words, apart, at)
            if length:
                said.append((self._meaning(words, at, length), False))
            elif denied:
                said += [(mention, True) for mention in denied]
            elif words[at] not in self.ids and words[at] not in self.small_words and words[at] not in unknown:
                unknown.append(words[at])
            at = at + length if length else end
        mentions = self._resolve(said)
        if not mentions:
            raise PromptNotUnderstood(f"no place, time or weather in {text!r}")
        return Parsed(tuple(mentions), tuple(unknown))

    def _meaning(self, words: list[str], at: int, length: int) -> Mention:
        return self.lexicon[" ".join(words[at : at + length])]

    def _length_at(self, words: list[str], at: int) -> int:
        return next((n for n in range(min(self.longest, len(words) - at), 0, -1) if " ".join(words[at : at + n]) in self.lexicon), 0)

    def _denied(self, words: list[str], apart: list[bool], at: int) -> tuple[list[Mention], int]:
        """What the word at `at` denies, and the word after it."""
        rules = self.negation
        denies = words[at] in rules["words"]
        mentions: list[Mention] = []
        end = next_word = at + 1
        while denies or words[at] in rules["ends"]:
            begin = next_word
            while begin < len(words) and begin < next_word + rules["most_fillers"] and not apart[begin] and not self._length_at(words, begin) and words[begin] in rules["fillers"]:
                begin += 1
            length = 0 if begin >= len(words) or apart[begin] else self._length_at(words, begin)
            if not length or not (denies or self._meaning(words, begin, length).attribute in self.absent):
                break
            mentions.append(self._meaning(words, begin, length))
            end = begin + length
            if end >= len(words) or apart[end] or words[end] not in rules["joins"]:
                break
            next_word = end + 1
        return mentions, end

    def _resolve(self, said: list[tuple[Mention, bool]]) -> list[Mention]:
        kept: list[tuple[int, Mention]] = []
        for attribute in range(len(self.canonical)):
            mine = [(i, mention, denied) for i, (mention, denied) in enumerate(said) if mention.attribute == attribute]
            denials = [(i, mention) for i, mention, denied in mine if denied]
            wishes = [(i, m) for i, m, denied in mine if not denied and not any(d.value == m.value and j > i for j, d in denials)]
            gone = [i for i, d in denials if d.value != self.absent.get(attribute, d.value)]
            if wishes:
                kept.append(wishes[-1])
            elif gone:
                value = self.absent[attribute]
                kept.append((gone[-1], Mention(attribute, value, self.canonical[attribute][value])))
        return [mention for _, mention in sorted(kept, key=lambda pair: pair[0])]

    def state_words(self, state: State) -> list[str]:
        return " ".join(self.canonical[a][value] for a, value in enumerate(state)).split()

    def read_state(self, words: list[str]) -> State | None:
        """The state that exactly these words stand for, if any."""
        text, out = " ".join(words), []
        for values in self.canonical:
            match = next((v for v, phrase in enumerate(values) if text == phrase or text.startswith(phrase + " ")), None)
            if match is None:
                return None
            out.append(match)
            text = text[len(values[match]) :].lstrip()
        return (out[0], out[1], out[2]) if not text else None

    def prompt(self, state: State) -> str:
        return self.template.format(**{name: self.canonical[a][state[a]] for a, name in enumerate(self.names)})

    def passes(self, mentions: tuple[Mention, ...]) -> list[tuple[str, tuple[Mention, ...]]]:
        groups = [mentions[i : i + 2] for i in range(0, len(mentions), 2)]
        return [
            (self.edits["two"].format(a=g[0].phrase, b=g[1].phrase) if len(g) == 2 else self.edits["one"].format(a=g[0].phrase), g) for g in groups
        ]


def _words(text: str) -> tuple[list[str], list[bool]]:
    """Words, and whether punctuation stands before each."""
    words, apart, pause = [], [], False
    for token in re.findall(r"(?:[^\W_]|')+|[.,;:!?…–—]", text.lower().replace("’", "'")):
        if token[0].isalnum() or token[0] == "'":
            words.append(token)
            apart.append(pause)
            pause = False
        else:
            pause = True
    return words, apart


class Director:
    def __init__(self, processor: PromptProcessor, graphs: DriveGraphs) -> None:
        self.processor, self._graphs = processor, graphs

    def complete(self, state: State, edit: str) -> tuple[list[str], str]:
        """Greedy completion: words of the new state, narration. Words of the edit outside the vocabulary are dropped."""
        p = self.processor
        script = ["<bos>", *p.state_words(state), "<sep>", *(word for word in edit.split() if word in p.ids), "<eos>"]
        words = [p.words[i] for i in self._continue([p.ids[word] for word in script][: p.max_words - 1])]
        cut = words.index("<sep>") if "<sep>" in words else len(words)
        return words[:cut], " ".join(words[cut + 1 :])

    def _continue(self, script: list[int]) -> list[int]:
        """The ids that follow, without the one that ends them."""
        p, ids = self.processor, list(script)
        prompt = script[: p.max_prompt_words]  # longer ones than the processor's own templates make are read on word by word
        padded = np.array([prompt + [p.special["pad"]] * (p.max_prompt_words - len(prompt))], np.int64)
        logits, kv = self._graphs.run("director_prefill", ids=padded, position=np.array([[len(prompt) - 1]], np.int64))
        for at in range(len(prompt), p.max_words):
            if at == len(ids):
                word = int(logits[0].argmax())
                if word == p.special["eos"]:
                    break
                ids.append(word)
            logits, kv = self._graphs.run("director_step", word=np.array([[ids[at]]], np.int64), position=np.array([[at]], np.int64), kv=kv)
        return ids[len(script) :]

    def plan(self, state: State, parsed: Parsed) -> Plan:
        repaired, narration = False, ""
        steps = self.processor.passes(parsed.mentions)
        for edit, mentions in steps:
            words, narration = self.complete(state, edit)
            wanted = apply_mentions(state, mentions)
            decoded = self.processor.read_state(words)
            repaired = repaired or decoded != wanted
            state = wanted
        return Plan(state, self.processor.prompt(state), narration, len(steps), repaired)


def apply_mentions(state: State, mentions: tuple[Mention, ...]) -> State:
    values = list(state)
    for mention in mentions:
        values[mention.attribute] = mention.value
    return (values[0], values[1], values[2])


def measure(folder: Path, count: int, seed: int) -> dict[str, object]:
    """How often the director's own plan is right: by the processor's templates, and with people's text given to it as it is."""
    processor = PromptProcessor.open(folder)
    director = Director(processor, DriveGraphs(folder / "weights"))
    rng = np.random.default_rng(seed)
    raw_forms = {
        1: ["{0}", "please make it {0}", "i want to see {0}", "how about {0}", "take me to {0}", "can we have {0} now", "let us have {0}"],
        2: ["{0} and {1}", "i want {0} with {1}", "{0} {1}", "show me {0} in {1}", "switch to {0} then {1}", "take me to {0} , {1} please"],
        3: ["{0} {1} {2}", "drive through {0} at {1} with {2}", "i want {0} , {1} and {2}"],
    }
    lexicon: dict[int, list[str]] = {a: [key for key, m in processor.lexicon.items() if m.attribute == a] for a in range(3)}
    templated, raw, narrated = {1: [], 2: [], 3: []}, {1: [], 2: [], 3: []}, []
    for _ in range(count):
        state = (int(rng.integers(5)), int(rng.integers(4)), int(rng.integers(4)))
        size = int(rng.integers(1, 4))
        chosen = [lexicon[int(a)][int(rng.integers(len(lexicon[int(a)])))] for a in rng.permutation(3)[:size]]
        text = raw_forms[size][int(rng.integers(len(raw_forms[size])))].format(*chosen)
        parsed = processor.parse(text)
        wanted = apply_mentions(state, parsed.mentions)
        plan = director.plan(state, parsed)
        templated[size].append(not plan.repaired)
        narrated.append(all(phrase in plan.narration for phrase in (processor.canonical[a][v] for a, v in enumerate(wanted))))
        words, _ = director.complete(state, text.lower())
        raw[size].append(processor.read_state(words) == wanted)
    share = lambda table: {str(size): round(float(np.mean(hits)), 4) for size, hits in table.items()} | {"all": round(float(np.mean(sum(table.values(), []))), 4)}  # noqa: E731
    return {"edits": count, "seed": seed, "plan_right_by_templates": share(templated), "plan_right_raw_text": share(raw), "narration_names_the_state": round(float(np.mean(narrated)), 4)}


EXAMPLE_TEXTS = (
    "Make it night!", "snowy mountains", "a snowy forest", "take me to the beach at sunset, please", "rain", "no rain", "city, midnight, storm",
    "I'd like sunny dunes in the early morning", "switch to the alps and then to downtown", "foggy", "snow storm over the ocean", "Night-time in the woods",
    "no fog", "stop raining", "without any rain or snow", "don’t want snow", "rain, no rain", "forest, no, city", "night, not the city", "clear night over the city, no rain",
    "not foggy but snowing", "stop at the beach", "clear the fog", "winter", "dark night", "it should be dark", "urban street with mist", "hello there", "", "drive through the desert at noon with clear sky", "day day night",
)


def examples(folder: Path) -> list[dict]:
    """Texts with all that the processor and the director make of them, starting from a clear day in the forest; for other implementations' tests."""
    processor = PromptProcessor.open(folder)
    director = Director(processor, DriveGraphs(folder / "weights"))
    state, out = (0, 1, 0), []
    for text in EXAMPLE_TEXTS:
        row: dict = {"text": text, "state": state}
        try:
            parsed = processor.parse(text)
        except PromptNotUnderstood:
            out.append(row | {"error": "prompt_not_understood"})
            continue
        plan = director.plan(state, parsed)
        out.append(row | {
            "mentions": [{"attribute": processor.names[m.attribute], "value": m.value, "phrase": m.phrase} for m in parsed.mentions],
            "unknown_words": parsed.unknown_words, "edits": [edit for edit, _ in processor.passes(parsed.mentions)], "new_state": plan.state,
            "prompt": plan.prompt, "narration": plan.narration,
        })
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the director on seeded states and edits, or writes examples for other implementations.")
    parser.add_argument("--examples", type=Path, help="write the examples to this file instead of measuring")
    parser.add_argument("--model", type=Path, default=Path("models/drive"))
    parser.add_argument("--edits", type=int, default=300)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    if args.examples:
        args.examples.write_text(json.dumps(examples(args.model), indent=2) + "\n")
        return
    print(json.dumps(measure(args.model, args.edits, args.seed), indent=2))


if __name__ == "__main__":
    main()

"""What training must never show: combinations of place, time and weather, and ways of asking. Chosen and hashed before training starts.

`python/held_out.json` holds the lists and their sha256; `python -m segue_drive.training.held_out` checks it (`--write` makes it anew, which only a
new lineage of weights may do). Held-out phrasings are templates of known words that no training template equals.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

import numpy as np

from ..vocabulary import PHRASES, PROMPT_TEMPLATES
from ..world import Attributes

FILE = Path(__file__).parents[2] / "held_out.json"
SELECTION_SEED = 2024
COMBINATION_COUNT = 8  # of 80

# More word orders than the first five, so that order alone carries no meaning.
TRAINING_TEMPLATES = (
    *PROMPT_TEMPLATES, "{place} , {weather} , {time}", "{time} {place} {weather}", "{weather} {place} {time}", "{time} {weather} {place}",
    "{place} at {time} with {weather}", "i want {weather} in the {place} at {time}", "go to the {place} , {time} and {weather}", "{weather} over the {place} , {time}",
)
HELD_OUT_TEMPLATES = (
    "switch to {time} , {weather} , {place}", "{place} in the {time} with {weather}", "let there be {weather} , {time} {place}",
    "now the {place} with {weather} at {time}", "{time} and {weather} over the {place}", "what about {place} {weather} {time}",
)


def select_combinations() -> list[tuple[int, int, int]]:
    """Eight combinations in which every place, time and weather occurs, and none more than twice as often as chance has it."""
    rng = np.random.default_rng(SELECTION_SEED)
    while True:
        flat = sorted(rng.choice(80, COMBINATION_COUNT, replace=False).tolist())
        chosen = [(c // 16, c // 4 % 4, c % 4) for c in flat]
        counts = [np.bincount([c[i] for c in chosen], minlength=size) for i, size in enumerate((5, 4, 4))]
        if all(count.min() >= 1 and count.max() <= 3 for count in counts):
            return chosen


def document() -> dict:
    lists = {
        "combinations": [
            {"place": PHRASES["place"][p][0], "time": PHRASES["time"][t][0], "weather": PHRASES["weather"][w][0], "indices": [p, t, w]}
            for p, t, w in select_combinations()
        ],
        "phrasings": list(HELD_OUT_TEMPLATES),
    }
    return {**lists, "sha256": digest(lists)}


def digest(lists: dict) -> str:
    wanted = {key: lists[key] for key in ("combinations", "phrasings")}
    return hashlib.sha256(json.dumps(wanted, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class HeldOut:
    """The lists as training and evaluation use them. Raises ValueError when the file isn't what its hash says."""

    def __init__(self, stored: dict) -> None:
        if digest(stored) != stored["sha256"]:
            raise ValueError("held_out.json was altered: its lists don't have the hash it states")
        self.sha256: str = stored["sha256"]
        self.combinations = frozenset(tuple(row["indices"]) for row in stored["combinations"])
        self.templates: tuple[str, ...] = tuple(stored["phrasings"])
        overlap = set(self.templates) & set(TRAINING_TEMPLATES)
        if overlap:
            raise ValueError(f"held-out phrasings that training uses: {sorted(overlap)}")

    @staticmethod
    def open(path: Path = FILE) -> HeldOut:
        return HeldOut(json.loads(path.read_text()))

    def contains(self, attributes: Attributes) -> bool:
        return attributes.as_tuple() in self.combinations

    def training_attributes(self, rng: np.random.Generator) -> Attributes:
        while True:
            attributes = Attributes.random(rng)
            if not self.contains(attributes):
                return attributes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    fresh = document()
    if args.write:
        FILE.write_text(json.dumps(fresh, indent=2) + "\n")
    stored = HeldOut.open()
    print(f"{len(stored.combinations)} combinations, {len(stored.templates)} phrasings, sha256 {stored.sha256}")
    sys.exit(0 if stored.sha256 == fresh["sha256"] else 1)


if __name__ == "__main__":
    main()

"""Seeded cases of the evaluation: a drive that is asked for something else halfway, with turns. The same seed gives the same cases for any weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..geometry import NUM_TOKENS, TOKEN_DIM
from ..training.held_out import TRAINING_TEMPLATES, HeldOut
from ..training.prompts import phrased
from ..world import Attributes

SWITCH_CHUNK = 12  # 2 s
LAST_CHUNK = 20  # its second frame is shown 1.5 s after the switch
NUM_CHUNKS = LAST_CHUNK + 1
TURN_CHUNK = 3
State = tuple[int, int, int]


@dataclass(frozen=True)
class Case:
    before: State
    after: State
    prompts: tuple[str, str]
    first_turn: int  # -1 left, 1 right; the other way from the switch on
    speed: int  # 0..3
    steered: bool  # the switch arrives between the two denoise steps of its chunk
    noise_seed: tuple[int, int, int]

    def action(self, chunk: int) -> tuple[int, int]:
        """Indices of steering and speed."""
        turn = 0 if chunk < TURN_CHUNK else self.first_turn if chunk < SWITCH_CHUNK else -self.first_turn
        return turn + 1, self.speed

    def prompt(self, chunk: int) -> str:
        return self.prompts[int(chunk >= SWITCH_CHUNK)]

    def noise(self) -> np.random.Generator:
        """Of its own, so that a stream doesn't depend on which others share its batch."""
        return np.random.default_rng(self.noise_seed)


FAMILIES = ("trained", "held_out_combinations", "held_out_phrasings")


def make_cases(family: str, count: int, seed: int, held_out: HeldOut) -> list[Case]:
    """`trained`: combinations and templates of the training stream. `held_out_combinations`: the switch leads to one of the list.
    `held_out_phrasings`: trained combinations, both prompts in held-out templates."""
    number = FAMILIES.index(family)
    unseen = sorted(held_out.combinations)
    out = []
    for i in range(count):
        rng = np.random.default_rng((seed, number, i))
        before = held_out.training_attributes(rng)
        after = held_out.training_attributes(rng)
        while after == before:
            after = held_out.training_attributes(rng)
        if family == "held_out_combinations":
            after = Attributes(*unseen[i % len(unseen)])
        templates = held_out.templates if family == "held_out_phrasings" else TRAINING_TEMPLATES
        texts = tuple(phrased(a.as_tuple(), templates[int(rng.integers(len(templates)))], rng) for a in (before, after))
        out.append(Case(
            before.as_tuple(), after.as_tuple(), (texts[0], texts[1]), int(rng.choice((-1, 1))), int(rng.integers(4)), family == "trained" and i % 2 == 1,
            (seed, 100 + number, i),
        ))
    return out


def chunk_noise(generators: list[np.random.Generator]) -> np.ndarray:
    return np.stack([g.standard_normal((NUM_TOKENS, TOKEN_DIM), np.float32) for g in generators])


def time_to_stay(right: np.ndarray) -> float | None:
    """Seconds from the switch to the end of the first chunk from which on all are right; None when the last one isn't."""
    if not right[-1]:
        return None
    wrong = np.flatnonzero(~right)
    return float((wrong[-1] + 2 if len(wrong) else 1) / 6)

"""The director's task: from a state and an edit to the new state and a narration of it, as one sequence of words.

`<bos> state <sep> edit <eos> new state <sep> narration <eos>`; only what follows the edit is learnt.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..geometry import DIRECTOR_WORDS
from ..transformer import DriveTransformer
from ..vocabulary import ATTRIBUTES, EDIT_TEMPLATES_ONE, EDIT_TEMPLATES_TWO, NARRATION_TEMPLATES, PAD, PHRASES, WORD_IDS, canonical_phrases
from ..world import Attributes
from .held_out import HeldOut

# The processor's own templates and looser ways of asking; `{a}`, `{b}`, `{c}` are attributes in any order.
EDITS: dict[int, tuple[str, ...]] = {
    1: (*EDIT_TEMPLATES_ONE, "{a}", "show the {a}", "{a} now", "drive through the {a}"),
    2: (*EDIT_TEMPLATES_TWO, "{a} {b}", "{a} and {b}", "i want {a} with {b}", "show {a} in the {b}", "switch to {a} , {b}"),
    3: ("{a} {b} {c}", "{a} , {b} , {c}", "drive through the {a} at {b} with {c}", "i want {a} , {b} and {c}"),
}
SIZE_SHARES = (0.4, 0.35, 0.25)


def state_words(state: tuple[int, ...]) -> list[str]:
    phrases = canonical_phrases((state[0], state[1], state[2]))
    return " ".join(phrases[name] for name in ATTRIBUTES).split()


def director_example(rng: np.random.Generator, held_out: HeldOut) -> tuple[list[int], int]:
    """Word ids (at most DIRECTOR_WORDS) and the index of the first one to learn."""
    while True:
        before = held_out.training_attributes(rng).as_tuple()
        size = int(rng.choice((1, 2, 3), p=SIZE_SHARES))
        after, phrases = list(before), []
        for i in rng.permutation(3)[:size]:
            after[i] = int(rng.integers((5, 4, 4)[i]))
            phrases.append(PHRASES[ATTRIBUTES[i]][after[i]][int(rng.integers(3))])
        if held_out.contains(Attributes(*after)):
            continue
        edit = EDITS[size][int(rng.integers(len(EDITS[size])))].format(**dict(zip("abc", phrases)))
        narration = NARRATION_TEMPLATES[int(rng.integers(len(NARRATION_TEMPLATES)))].format(**canonical_phrases((after[0], after[1], after[2])))
        given = ["<bos>", *state_words(before), "<sep>", *edit.split(), "<eos>"]
        words = [*given, *state_words(tuple(after)), "<sep>", *narration.split(), "<eos>"]
        if len(words) <= DIRECTOR_WORDS:
            return [WORD_IDS[word] for word in words], len(given)


def director_batch(rng: np.random.Generator, held_out: HeldOut, count: int) -> tuple[Tensor, Tensor]:
    """ids `[count, DIRECTOR_WORDS]` and where the next word is learnt `[count, DIRECTOR_WORDS - 1]`"""
    ids = torch.full((count, DIRECTOR_WORDS), PAD)
    learnt = torch.zeros(count, DIRECTOR_WORDS - 1, dtype=torch.bool)
    for row in range(count):
        words, first = director_example(rng, held_out)
        ids[row, : len(words)] = torch.tensor(words)
        learnt[row, first - 1 : len(words) - 1] = True
    return ids, learnt


def director_loss(net: DriveTransformer, ids: Tensor, learnt: Tensor) -> Tensor:
    return F.cross_entropy(net.all_word_logits(ids)[:, :-1][learnt], ids[:, 1:][learnt])


@torch.no_grad()
def plans_right(net: DriveTransformer, ids: Tensor, learnt: Tensor) -> float:
    """Share of sequences whose new state and its separator are all the most likely words. The narration has several right forms, so it isn't counted."""
    answers = net.all_word_logits(ids)[:, :-1].argmax(-1)
    right = []
    for row in range(len(ids)):
        first = int(learnt[row].nonzero()[0])
        last = first + int((ids[row, first + 1 :] == WORD_IDS["<sep>"]).nonzero()[0]) + 1
        right.append(bool((answers[row, first:last] == ids[row, first + 1 : last + 1]).all()))
    return float(np.mean(right))

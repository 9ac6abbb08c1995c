"""Prompts for training: any training template, any synonym; never a held-out phrasing or combination."""

from __future__ import annotations

import numpy as np

from ..vocabulary import ATTRIBUTES, PHRASES
from .held_out import TRAINING_TEMPLATES


def phrased(state: tuple[int, ...], template: str, rng: np.random.Generator) -> str:
    """The state in a template with random synonyms."""
    return template.format(**{name: PHRASES[name][value][int(rng.integers(len(PHRASES[name][value])))] for name, value in zip(ATTRIBUTES, state)})


def training_prompt(state: tuple[int, ...], rng: np.random.Generator) -> str:
    # the server writes every prompt in the first template, so that one gets half
    template = TRAINING_TEMPLATES[0] if rng.random() < 0.5 else TRAINING_TEMPLATES[int(rng.integers(len(TRAINING_TEMPLATES)))]
    return phrased(state, template, rng)

"""Seeded randomness of the world: the same seed gives the same world on every machine."""

from __future__ import annotations

import numpy as np


def generator(*key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(list(key)))


def unit_hash(index: int, seed: int) -> float:
    """A stable number in 0..1 for the object (or chirp) with this index, without any state."""
    x = (index * 2654435761 + seed * 40503 + 12345) & 0xFFFFFFFF
    x ^= x >> 15
    x = (x * 2246822519) & 0xFFFFFFFF
    x ^= x >> 13
    x = (x * 3266489917) & 0xFFFFFFFF
    x ^= x >> 16
    return x / 4294967296.0

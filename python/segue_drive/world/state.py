"""State of a drive and its motion. Distances are world units (half a road is 0.95), one step is 1/12 s."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .backdrops import PANORAMA_WIDTH
from .randomness import generator

F32 = np.float32
SPEEDS = np.array([0.0, 0.08, 0.16, 0.24], F32)  # world units per frame
FULL_CURVE = 0.05  # road curvature at full steering
CROSS_FADE = 0.1  # share of an attribute change per frame


@dataclass(frozen=True)
class Attributes:
    """Indices into `vocabulary.PHRASES`."""

    place: int
    time: int
    weather: int

    @staticmethod
    def random(rng: np.random.Generator) -> Attributes:
        return Attributes(int(rng.integers(5)), int(rng.integers(4)), int(rng.integers(4)))

    def as_tuple(self) -> tuple[int, int, int]:
        return self.place, self.time, self.weather


def _fade(weights: np.ndarray, target: int) -> None:
    """Moves weights (which add up to 1) towards one-hot at `target`."""
    if weights[target] < 1:
        others = weights.sum() - weights[target]
        left = max(0, others - CROSS_FADE)
        weights *= left / others if others > 1e-6 else 0
        weights[target] = 1 - left


class World:
    """A drive, deterministic from its seed and the sequence of steps. Steer -1 left, 0 straight, 1 right; speed 0..3."""

    def __init__(self, seed: int, attributes: Attributes, steer: int = 0, speed: int = 2) -> None:
        rng = generator(seed, 1)
        self.seed = int(seed)
        self.distance = float(rng.uniform(0, 300))
        self.heading = float(rng.uniform(0, PANORAMA_WIDTH))
        self.curve = FULL_CURVE * steer * float(rng.uniform(0.3, 1))
        self.velocity = float(SPEEDS[speed])
        self.previous_velocity = self.velocity
        self.frame = 0
        self.place = np.eye(5, dtype=F32)[attributes.place].copy()
        self.time = np.eye(4, dtype=F32)[attributes.time].copy()
        self.weather = np.eye(4, dtype=F32)[attributes.weather].copy()
        self.snow_x = 0.0
        self.snow_y = 0.0

    def step(self, attributes: Attributes, steer: int, speed: int) -> None:
        self.previous_velocity = self.velocity
        for weights, target in ((self.place, attributes.place), (self.time, attributes.time), (self.weather, attributes.weather)):
            _fade(weights, target)
        self.curve += 0.18 * (FULL_CURVE * steer - self.curve)
        self.velocity += 0.25 * (float(SPEEDS[speed]) - self.velocity)
        self.distance += self.velocity
        self.heading = (self.heading + self.curve * self.velocity * 420) % PANORAMA_WIDTH
        self.frame += 1
        self.snow_y = (self.snow_y + 5 + self.velocity * 11) % 128
        self.snow_x = (self.snow_x + 1.5 + self.curve * self.velocity * 260) % 224

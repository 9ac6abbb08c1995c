"""Single frames for the autoencoder, rendered on the fly; and the fixed held-out renders that it is measured on."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..world import Attributes, World, render
from .held_out import HeldOut

CROSS_FADE_SHARE = 0.25  # of the frames, amid a change of place, time or weather
MEASURE_SEED = 990_000  # training seeds are drawn from another generator and never reach these worlds


def training_frame(rng: np.random.Generator, held_out: HeldOut) -> np.ndarray:
    """uint8 `[128, 224, 3]`"""
    before = held_out.training_attributes(rng)
    after = held_out.training_attributes(rng) if rng.random() < CROSS_FADE_SHARE else before
    return _drive(int(rng.integers(1 << 31)), before, after, rng)


def _drive(seed: int, before: Attributes, after: Attributes, rng: np.random.Generator) -> np.ndarray:
    world = World(seed, before, int(rng.integers(-1, 2)), int(rng.integers(4)))
    steer, speed = int(rng.integers(-1, 2)), int(rng.integers(4))
    for _ in range(int(rng.integers(1, 9))):
        world.step(after, steer, speed)
    return render(world)


def as_tensor(frames: np.ndarray) -> Tensor:
    """-> `[B, 3, 128, 224]` in -1..1"""
    return torch.from_numpy(frames).permute(0, 3, 1, 2).float() / 127.5 - 1


def training_batch(number: int, seed: int, held_out: HeldOut, count: int) -> np.ndarray:
    """The `number`-th batch of a training, uint8 `[count, 128, 224, 3]`."""
    rng = np.random.default_rng((seed, 1, number))
    return np.stack([training_frame(rng, held_out) for _ in range(count)])


def measured_frames(count: int) -> tuple[Tensor, np.ndarray]:
    """Held-out renders `[count, 3, 128, 224]` and their attributes `[count, 3]`: every combination in turn, worlds that training never visits."""
    frames, truth = [], []
    for i in range(count):
        rng = np.random.default_rng((MEASURE_SEED, i))
        c = (i * 37) % 80
        attributes = Attributes(c // 16, c // 4 % 4, c % 4)
        frames.append(_drive(MEASURE_SEED * 4096 + i, attributes, attributes, rng))
        truth.append(attributes.as_tuple())
    return as_tensor(np.stack(frames)), np.array(truth)

"""Clips of the world for the transformer: pictures, sound, and what was asked and pressed at each chunk. Deterministic from seed and index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..geometry import FRAMES_PER_CHUNK
from ..world import Attributes, World, render, sound_controls
from .held_out import HeldOut

CLIP_CHUNKS = 16  # 2.7 s; training takes 8 in a row out of them
SWITCH_SHARE = 0.75  # of the clips: what is asked changes once, at a chunk's boundary
CHANGED_ATTRIBUTES = (0.5, 0.2, 0.3)  # probability that 1, 2 or 3 attributes are drawn anew
STEER_CHANGE = 0.13  # per chunk
SPEED_CHANGE = 0.08
SPEED_SHARES = (0.1, 0.25, 0.35, 0.3)


@dataclass(frozen=True)
class Clip:
    frames: np.ndarray  # uint8 [32, 128, 224, 3]
    controls: np.ndarray  # float32 [32, 8, 32]
    attributes: np.ndarray  # uint8 [16, 3]
    actions: np.ndarray  # uint8 [16, 2]: steer index, speed index


def changed(attributes: Attributes, rng: np.random.Generator, held_out: HeldOut) -> Attributes:
    while True:
        values = list(attributes.as_tuple())
        count = int(rng.choice((1, 2, 3), p=CHANGED_ATTRIBUTES))
        for i in rng.permutation(3)[:count]:
            values[i] = int(rng.integers((5, 4, 4)[i]))
        after = Attributes(*values)
        if not held_out.contains(after):
            return after


def render_clip(seed: int, index: int, held_out: HeldOut) -> Clip:
    rng = np.random.default_rng((seed, 2, index))
    attributes = held_out.training_attributes(rng)
    steer, speed = int(rng.integers(-1, 2)), int(rng.choice(4, p=SPEED_SHARES))
    world = World(int(rng.integers(1 << 31)), attributes, steer, speed)
    switch = int(rng.integers(2, CLIP_CHUNKS - 1)) if rng.random() < SWITCH_SHARE else -1
    frames, controls, asked, pressed = [], [], [], []
    for chunk in range(CLIP_CHUNKS):
        if chunk == switch:
            attributes = changed(attributes, rng, held_out)
        if chunk and rng.random() < STEER_CHANGE:
            steer = int(rng.integers(-1, 2))
        if chunk and rng.random() < SPEED_CHANGE:
            speed = int(rng.integers(4))
        for _ in range(FRAMES_PER_CHUNK):
            world.step(attributes, steer, speed)
            frames.append(render(world))
            controls.append(sound_controls(world))
        asked.append(attributes.as_tuple())
        pressed.append((steer + 1, speed))
    return Clip(np.stack(frames), np.stack(controls), np.array(asked, np.uint8), np.array(pressed, np.uint8))

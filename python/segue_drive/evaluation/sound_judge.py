"""Does the sound match speed and weather? Against the world's own controls: pitch says the speed, noise bands say the weather."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..rollout import DriveGraphs, SoundStream
from ..synth import NUM_BANDS, NUM_HARMONICS
from ..world import Attributes, World, sound_controls
from .cases import State

BANDS = slice(1 + NUM_HARMONICS, 1 + NUM_HARMONICS + NUM_BANDS)
TEMPLATE_SEEDS = (31, 32, 33)
SETTLE_FRAMES = 16
AVERAGED_FRAMES = 4


def world_controls(state: State, speed: int, seed: int) -> np.ndarray:
    """Mean control frame `[32]` of a drive that has settled."""
    attributes = Attributes(*state)
    world = World(seed, attributes, 0, speed)
    out = []
    for frame in range(SETTLE_FRAMES + AVERAGED_FRAMES):
        world.step(attributes, 0, speed)
        if frame >= SETTLE_FRAMES:
            out.append(sound_controls(world)[-1])
    return np.mean(out, 0)


@lru_cache(maxsize=None)
def template(state: State, speed: int) -> np.ndarray:
    return np.mean([world_controls(state, speed, seed) for seed in TEMPLATE_SEEDS], 0)


def heard_controls(graphs: DriveGraphs, chunks: np.ndarray) -> np.ndarray:
    """`[n, B, 32, 128]` -> mean of the last control frames `[B, 32]`, as the synthesiser hands them on."""
    sound, out = SoundStream(graphs, chunks.shape[1]), []
    for chunk in chunks:
        for frame in range(2):
            sound.frame(chunk, frame)
            out.append(sound.control)
    return np.mean(out, 0)


def judge_sound(controls: np.ndarray, state: State, speed: int) -> tuple[bool, bool]:
    """(speed right, weather right) of a mean control frame `[32]` of a drive in `state`."""
    place, time, weather = state
    nearest_speed = min(range(4), key=lambda s: abs(float(controls[0] - template(state, s)[0])))
    nearest_weather = min(range(4), key=lambda w: float(np.square(controls[BANDS] - template((place, time, w), speed)[BANDS]).sum()))
    return nearest_speed == speed, nearest_weather == weather

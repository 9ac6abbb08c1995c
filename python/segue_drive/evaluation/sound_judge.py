"""Does the sound match speed and weather? Against the world's own controls: pitch says the speed, noise bands say the weather."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..rollout import DriveGraphs, SoundStream
from ..synth import NUM_BANDS, NUM_HARMONICS
from ..world import Attributes, World, sound_controls
from .cases import State

BANDS = slice(1 + NUM_HARMONICS, 1 + NUM_HARMONICS + NUM_BANDS)
TEMPLATE_SEED = 31
SETTLE_FRAMES = 16
AVERAGED_FRAMES = 4  # two chunks
PHASES = 10  # surf and gusts swell over about four seconds, so a state has several sounds
PHASE_FRAMES = 5


def world_controls(state: State, speed: int, seed: int) -> np.ndarray:
    """Mean control frames `[PHASES, 32]` of a settled drive, at moments over four seconds."""
    attributes = Attributes(*state)
    world = World(seed, attributes, 0, speed)
    for _ in range(SETTLE_FRAMES):
        world.step(attributes, 0, speed)
    out = []
    for _ in range(PHASES):
        heard = []
        for frame in range(PHASE_FRAMES):
            world.step(attributes, 0, speed)
            if frame < AVERAGED_FRAMES:
                heard.append(sound_controls(world)[-1])
        out.append(np.mean(heard, 0))
    return np.stack(out)


@lru_cache(maxsize=None)
def template(state: State, speed: int) -> np.ndarray:
    """`[PHASES, 32]`"""
    return world_controls(state, speed, TEMPLATE_SEED)


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
    nearest_speed = min(range(4), key=lambda s: abs(float(controls[0] - template(state, s)[:, 0].mean())))
    nearest_weather = min(range(4), key=lambda w: float(np.square(controls[BANDS] - template((place, time, w), speed)[:, BANDS]).sum(1).min()))
    return nearest_speed == speed, nearest_weather == weather

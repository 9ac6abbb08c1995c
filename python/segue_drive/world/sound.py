"""Sound controls of the drive: engine pitch and harmonics, tyres, wind, rain, surf, city hum, crickets and birds."""

from __future__ import annotations

import numpy as np

from ..geometry import CONTROL_DIM, CONTROLS_PER_FRAME, FRAMES_PER_SECOND
from ..synth import BAND_CENTRES, BAND_OFFSET, FLOOR, HARMONIC_OFFSET, LOWEST_PITCH, NUM_BANDS, NUM_HARMONICS
from . import palettes as P
from .randomness import unit_hash
from .state import World

F32 = np.float32
FULL_SPEED = 0.24  # world units per frame
_LOG_BANDS = np.log2(BAND_CENTRES)
_HARMONIC = np.arange(1, NUM_HARMONICS + 1)


def _bump(centre: float, width: float, gain: float) -> np.ndarray:
    """Gain per band around a centre frequency (Hz); width in octaves."""
    return (gain * np.exp(-(((_LOG_BANDS - np.log2(centre)) / width) ** 2))).astype(F32)


def engine_pitch(speed_share: float) -> float:
    """Hz at a share (0..1) of full speed."""
    return LOWEST_PITCH * 2 ** (1.9 * speed_share)


def _animals(world: World, seconds: float) -> np.ndarray | float:
    quiet = (1 - world.weather[P.RAIN]) * (1 - world.weather[P.SNOWFALL])
    if quiet <= 0:
        return 0.0
    place, time = world.place, world.time
    draw = unit_hash(int(seconds * 1.5), world.seed + 3)
    crickets = _bump(4600, 0.25, 0.09 * time[P.NIGHT] * quiet * (1 - place[P.CITY]) * (draw < 0.6) * (int(seconds * 24) % 2 == 0))
    birds = _bump(
        3000 + 1500 * np.sin(seconds * 25), 0.3,
        0.09 * (time[P.DAY] + time[P.DAWN]) * place[P.FOREST] * quiet * (draw > 0.6) * (((seconds * 1.5) % 1) < 0.35),
    )
    return crickets + birds


def sound_controls(world: World) -> np.ndarray:
    """The `[8, 32]` control frames of the step just made."""
    out = np.zeros((CONTROLS_PER_FRAME, CONTROL_DIM), F32)
    place, weather = world.place, world.weather
    for i in range(CONTROLS_PER_FRAME):
        share = (world.previous_velocity + (world.velocity - world.previous_velocity) * (i + 1) / 8) / FULL_SPEED
        seconds = (world.frame + i / 8) / FRAMES_PER_SECOND
        loudness = 0.10 + 0.22 * share
        harmonics = loudness * _HARMONIC ** -(1.5 - 0.5 * share) * (1 + 0.25 * np.sin(_HARMONIC * 1.7 + share * 5))
        surface = place[P.FOREST] * 0.7 + place[P.DESERT] * 1.2 + place[P.CITY] * 1.0 + place[P.COAST] * 0.9 + place[P.MOUNTAINS] * 0.35
        bands = 0.002 + _bump(180, 1.6, 0.05 * share) + _bump(700 + 500 * share, 1.3, (0.035 * share) * surface)
        bands = bands + _bump(5200, 1.0, 0.075 * weather[P.RAIN]) + _bump(1500, 0.9, 0.03 * weather[P.RAIN])
        bands = bands + _bump(420 + 120 * np.sin(seconds * 1.3), 0.7, 0.06 * weather[P.SNOWFALL] * (1 + 0.6 * np.sin(seconds * 2.1)))
        bands = bands * (1 - 0.45 * weather[P.FOG])
        bands = bands + _bump(800, 1.5, 0.06 * place[P.COAST] * max(0, np.sin(seconds * 1.6)) ** 2) + _bump(95, 0.5, 0.05 * place[P.CITY])
        bands = bands + _animals(world, seconds)
        out[i, 0] = np.log2(engine_pitch(share) / LOWEST_PITCH) * 2 - 2
        out[i, 1 : 1 + NUM_HARMONICS] = np.log(harmonics + FLOOR) * 0.5 + HARMONIC_OFFSET
        out[i, 1 + NUM_HARMONICS : 1 + NUM_HARMONICS + NUM_BANDS] = np.log(bands + FLOOR) * 0.5 + BAND_OFFSET
    return out

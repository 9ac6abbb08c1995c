"""Textures that the renderer scrolls: horizon panoramas per place, clouds, stars, ground noise, rain and snow tiles."""

from __future__ import annotations

import numpy as np

from ..geometry import FRAME_HEIGHT, FRAME_WIDTH
from .palettes import CITY, COAST, DESERT, FOREST, PLACES, colour
from .randomness import generator

HORIZON = 50  # rows of sky
PANORAMA_WIDTH = 1024  # pixels of heading; a full turn
F32 = np.float32


def _smooth_periodic(length: int, waves: list[int], rng: np.random.Generator) -> np.ndarray:
    out = np.zeros(length)
    angle = np.arange(length) * 2 * np.pi / length
    for wave in waves:
        out += np.sin(angle * wave + rng.uniform(0, 6.28)) * rng.uniform(0.5, 1) / np.sqrt(len(waves))
    return out


class _Panorama:
    """Layers of silhouettes, back to front, with opacity and lights that shine at night."""

    def __init__(self) -> None:
        self.row = np.arange(HORIZON)[:, None].astype(F32)
        self.rgba = np.zeros((HORIZON, PANORAMA_WIDTH, 4), F32)
        self.lights = np.zeros((HORIZON, PANORAMA_WIDTH, 3), F32)

    def coverage(self, height: np.ndarray) -> np.ndarray:
        return np.clip(self.row - (HORIZON - height[None]) + 0.5, 0, 1)

    def paint(self, alpha: np.ndarray, paint: np.ndarray) -> None:
        self.rgba[..., :3] = self.rgba[..., :3] * (1 - alpha[..., None]) + paint * alpha[..., None]
        self.rgba[..., 3] = np.maximum(self.rgba[..., 3], alpha)

    def layer(self, height: np.ndarray, paint: np.ndarray, shade: np.ndarray | None = None) -> None:
        alpha = self.coverage(height)
        full = np.broadcast_to(paint, (HORIZON, PANORAMA_WIDTH, 3)) if shade is None else paint * shade[..., None]
        self.paint(alpha, full)

    def wrapped(self) -> tuple[np.ndarray, np.ndarray]:
        """Repeats the start at the end, so that any window of a frame's width is one slice."""
        return tuple(np.concatenate([t, t[:, : FRAME_WIDTH + 2]], 1) for t in (self.rgba, self.lights))


def _saw(cycles: float, shift: float) -> np.ndarray:
    return np.abs(((np.arange(PANORAMA_WIDTH) * 1.0 * cycles / PANORAMA_WIDTH + shift) % 1) - 0.5) * 2


def _forest(p: _Panorama, rng: np.random.Generator) -> None:
    p.layer(14 + 5 * _smooth_periodic(PANORAMA_WIDTH, [3, 5, 8, 13], rng), colour(70, 110, 104))
    teeth = np.abs(((np.arange(PANORAMA_WIDTH) * 1.0 / 8) % 1) - 0.5) * 2
    p.layer(8 + 3 * _smooth_periodic(PANORAMA_WIDTH, [4, 7, 11], rng) - 5 * teeth, colour(34, 74, 44))


def _desert(p: _Panorama, rng: np.random.Generator) -> None:
    mesa = _smooth_periodic(PANORAMA_WIDTH, [3, 4, 7], rng)
    height = np.where(mesa > 0.25, 16, np.where(mesa > -0.05, 8, 2)).astype(float)
    height = np.convolve(np.r_[height[-3:], height, height[:3]], np.ones(7) / 7, "valid")
    strata = 1 - 0.25 * ((p.row / 4).astype(int) % 2) * np.ones((1, PANORAMA_WIDTH))
    p.layer(height, colour(176, 92, 58), strata)


def _city(p: _Panorama, rng: np.random.Generator) -> None:
    height = np.zeros(PANORAMA_WIDTH)
    x = 0
    while x < PANORAMA_WIDTH:
        width = rng.integers(9, 18)
        height[x : x + width] = rng.uniform(10, 40)
        x += width
    p.layer(height, colour(88, 98, 118))
    columns = np.arange(PANORAMA_WIDTH)
    rows = p.row.astype(int)
    x = 0
    while x < PANORAMA_WIDTH:
        width = int(rng.integers(10, 20))
        tall = rng.uniform(6, 26)
        block = np.zeros(PANORAMA_WIDTH)
        block[x : x + width] = tall
        p.paint(p.coverage(block) * (block[None] > 0), colour(*(np.array([70, 72, 84]) + rng.integers(0, 40, 3))))
        inside = (columns >= x + 1) & (columns < x + width - 2)
        window = (((columns[None] - x) % 4) >= 2) & ((rows % 5) >= 2) & inside[None] & (p.row > HORIZON - tall + 2)
        lit = (rng.random((HORIZON // 5 + 1, PANORAMA_WIDTH // 4 + 1)) < 0.6)[rows // 5, (columns // 4)[None]]
        p.lights[window & lit] = colour(255, 214, 120)
        p.rgba[..., :3] = np.where(window[..., None], p.rgba[..., :3] * 0.75 + 0.1, p.rgba[..., :3])
        x += width + int(rng.integers(0, 8))


def _coast(p: _Panorama, rng: np.random.Generator) -> None:
    p.layer(np.maximum(0, 10 * _smooth_periodic(PANORAMA_WIDTH, [2, 3, 5], rng) - 2), colour(70, 110, 130))
    p.layer(np.full(PANORAMA_WIDTH, 4.0), colour(40, 120, 170))


def _mountains(p: _Panorama, rng: np.random.Generator) -> None:
    height = 12 + 22 * (1 - _saw(8, 0.2)) * (0.7 + 0.3 * _smooth_periodic(PANORAMA_WIDTH, [3], rng))
    p.layer(height, colour(120, 136, 166))
    snow_line = (HORIZON - height[None]) + 8 + 3 * np.sin(np.arange(PANORAMA_WIDTH) / 5)[None]
    cap = p.coverage(height) * np.clip(snow_line - p.row, 0, 1)
    p.rgba[..., :3] = p.rgba[..., :3] * (1 - cap[..., None]) + colour(240, 245, 252) * cap[..., None]
    p.layer(7 + 9 * (1 - _saw(16, 0.5)), colour(176, 190, 212))


def _panoramas() -> list[tuple[np.ndarray, np.ndarray]]:
    draw = {FOREST: _forest, DESERT: _desert, CITY: _city, COAST: _coast}
    out = []
    for place in range(len(PLACES)):
        panorama = _Panorama()
        draw.get(place, _mountains)(panorama, generator(77, place))
        out.append(panorama.wrapped())
    return out


def _clouds_and_stars() -> tuple[np.ndarray, np.ndarray]:
    rng = generator(5)
    clouds = np.zeros((HORIZON, PANORAMA_WIDTH), F32)
    for _ in range(28):
        x, y, a, b = rng.uniform(0, PANORAMA_WIDTH), rng.uniform(4, 30), rng.uniform(18, 50), rng.uniform(2.5, 6)
        dx = (np.arange(PANORAMA_WIDTH) - x + PANORAMA_WIDTH / 2) % PANORAMA_WIDTH - PANORAMA_WIDTH / 2
        distance = (dx[None] / a) ** 2 + ((np.arange(HORIZON)[:, None] - y) / b) ** 2
        clouds = np.maximum(clouds, np.clip(1.2 - distance, 0, 1))
    stars = np.zeros((HORIZON, PANORAMA_WIDTH), F32)
    for _ in range(70):
        # drawn in this order (brightness, row, column) since the first version of the world
        brightness = rng.uniform(0.5, 1)
        stars[rng.integers(1, HORIZON - 10), rng.integers(0, PANORAMA_WIDTH)] = brightness
    return tuple(np.concatenate([t, t[:, : FRAME_WIDTH + 2]], 1) for t in (clouds, stars))


def _ground_noise() -> np.ndarray:
    rng = generator(31)
    noise = sum(np.kron(rng.standard_normal((64 // k, 64 // k)), np.ones((k, k))) / 2 for k in (2, 4)).astype(F32)
    return (noise + np.roll(noise, 1, 0) + np.roll(noise, 1, 1) + np.roll(noise, (1, 1), (0, 1))) / 4


def _rain_and_snow() -> tuple[np.ndarray, np.ndarray]:
    rng = generator(41)
    rain = np.zeros((2 * FRAME_HEIGHT, 2 * FRAME_WIDTH), F32)
    for _ in range(190):
        x, y, length = rng.integers(0, 440), rng.integers(0, 236), rng.integers(8, 18)
        for i in range(length):
            rain[y + i, x + i // 5] = max(rain[y + i, x + i // 5], 0.55)
            rain[y + i, x + i // 5 + 1] = max(rain[y + i, x + i // 5 + 1], 0.3)
    snow = np.zeros((FRAME_HEIGHT, FRAME_WIDTH), F32)
    rows, columns = np.mgrid[0:FRAME_HEIGHT, 0:FRAME_WIDTH]
    for _ in range(70):
        x, y, size = rng.uniform(0, FRAME_WIDTH), rng.uniform(0, FRAME_HEIGHT), rng.uniform(1.0, 2.4)
        dx = (columns - x + FRAME_WIDTH // 2) % FRAME_WIDTH - FRAME_WIDTH // 2
        dy = (rows - y + FRAME_HEIGHT // 2) % FRAME_HEIGHT - FRAME_HEIGHT // 2
        snow = np.maximum(snow, np.clip(size - np.sqrt(dx * dx + dy * dy) + 0.5, 0, 1))
    return rain, snow


PANORAMAS = _panoramas()
CLOUDS, STARS = _clouds_and_stars()
GROUND_NOISE = _ground_noise()  # 64 x 64
RAIN_TILE, SNOW_TILE = _rain_and_snow()

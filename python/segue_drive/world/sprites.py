"""Roadside objects: three variants per place, drawn once at 100 x 100 and averaged down to nine sizes (premultiplied alpha)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .palettes import colour
from .randomness import generator

F32 = np.float32
CANVAS = 100
SIZES = (4, 6, 9, 13, 20, 30, 45, 68, 100)  # pixels of height
_rows, _columns = np.mgrid[0:CANVAS, 0:CANVAS].astype(F32)
U = (_columns + 0.5) / CANVAS * 2 - 1  # -1 left .. 1 right
V = (_rows + 0.5) / CANVAS  # 0 top .. 1 bottom


@dataclass(frozen=True)
class Sprite:
    aspect: float  # width over height
    height: float  # world units
    mips: list[np.ndarray]  # per size [h, w, 4], premultiplied
    lights: list[np.ndarray | None]  # per size [h, w, 3], shines at night


def _shrink(image: np.ndarray, height: int, width: int) -> np.ndarray:
    top, left = np.linspace(0, CANVAS, height + 1).astype(int), np.linspace(0, CANVAS, width + 1).astype(int)
    return np.stack([
        [image[top[i] : max(top[i + 1], top[i] + 1), left[j] : max(left[j + 1], left[j] + 1)].mean((0, 1)) for j in range(width)]
        for i in range(height)
    ]).astype(F32)


def _sprite(aspect: float, height: float, rgb: np.ndarray, alpha: np.ndarray, lights: np.ndarray | None = None) -> Sprite:
    image = np.concatenate([rgb * alpha[..., None], alpha[..., None]], -1)
    widths = [max(2, int(round(size * aspect))) for size in SIZES]
    return Sprite(
        aspect, height, [_shrink(image, s, w) for s, w in zip(SIZES, widths)],
        [None if lights is None else _shrink(lights, s, w) for s, w in zip(SIZES, widths)],
    )


def _blank() -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((CANVAS, CANVAS, 3), F32), np.zeros((CANVAS, CANVAS), F32)


def _pine(leaf: np.ndarray, tip: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    rgb, alpha = _blank()
    trunk = (abs(U) < 0.1) & (V > 0.85)
    rgb[trunk], alpha[trunk] = colour(80, 56, 40), 1
    for k, (top, bottom, width) in enumerate([(0, 0.4, 0.45), (0.22, 0.65, 0.7), (0.45, 0.9, 0.95)]):
        inside = (V >= top) & (V < bottom) & (abs(U) < width * (V - top) / (bottom - top))
        paint = leaf * (1 - 0.25 * np.clip(U + 0.3, 0, 1))[..., None] * (1 - 0.12 * k)
        if tip is not None:
            paint = np.where((V - top < 0.16)[..., None], tip, paint)
        rgb[inside], alpha[inside] = paint[inside], 1
    return rgb, alpha


def _broadleaf() -> tuple[np.ndarray, np.ndarray]:
    rgb, alpha = _blank()
    trunk = (abs(U) < 0.1) & (V > 0.5)
    rgb[trunk], alpha[trunk] = colour(96, 66, 44), 1
    crown = (U**2 + ((V - 0.32) / 0.32) ** 2) < 1
    rgb[crown], alpha[crown] = (colour(70, 140, 52) * (1.1 - 0.35 * V[..., None]))[crown], 1
    return rgb, alpha


def _cactus() -> tuple[np.ndarray, np.ndarray]:
    rgb, alpha = _blank()
    arms = (abs(abs(U) - 0.65) < 0.16) & (V > 0.25 + 0.15 * (U > 0)) & (V < 0.6)
    inside = (abs(U) < 0.2) | arms | ((abs(U) < 0.7) & (abs(V - 0.57) < 0.06))
    rgb[inside], alpha[inside] = (colour(60, 128, 66) * (1.05 - 0.3 * (U[..., None] > 0.05)))[inside], 1
    return rgb, alpha


def _mound(paint: np.ndarray, top_light: float, fall: float) -> tuple[np.ndarray, np.ndarray]:
    rgb, alpha = _blank()
    inside = (U**2 + ((1 - V) / 1) ** 2 * 1.1) < 1
    rgb[inside], alpha[inside] = (paint * (top_light - fall * V[..., None]))[inside], 1
    return rgb, alpha


def _building(paint: np.ndarray, aspect: float, height: float, seed: int) -> Sprite:
    rng = generator(9, seed)
    rgb = np.ones((CANVAS, CANVAS, 3), F32) * paint * (1 - 0.18 * (U[..., None] > 0.4))
    lights = np.zeros((CANVAS, CANVAS, 3), F32)
    columns, rows = 4, 7
    x, y = (U + 1) / 2 * columns, V * rows
    window = ((x % 1) > 0.3) & ((x % 1) < 0.8) & ((y % 1) > 0.3) & ((y % 1) < 0.8) & (V < 0.9)
    rgb[window] = colour(150, 180, 205)
    lit = rng.random((rows + 1, columns + 1)) < 0.6
    lights[lit[np.minimum(y.astype(int), rows), np.minimum(x.astype(int), columns)] & window] = colour(255, 210, 110)
    return _sprite(aspect, height, rgb, np.ones((CANVAS, CANVAS), F32), lights)


def _street_lamp() -> Sprite:
    rgb, alpha = _blank()
    lights = np.zeros((CANVAS, CANVAS, 3), F32)
    post = (abs(U + 0.0) < 0.12) | ((V < 0.06) & (U > -0.1))
    rgb[post], alpha[post] = colour(60, 62, 66), 1
    lamp = ((U - 0.6) ** 2 + ((V - 0.07) / 0.5 * 2) ** 2) < 0.09
    rgb[lamp], alpha[lamp], lights[lamp] = colour(250, 235, 190), 1, colour(255, 230, 170)
    return _sprite(0.3, 2.2, rgb, alpha, lights)


def _palm() -> tuple[np.ndarray, np.ndarray]:
    rgb, alpha = _blank()
    bend = 0.1 * np.sin(V * 3) * 2
    trunk = (abs(U - bend * (1 - V)) < 0.09) & (V > 0.2)
    rgb[trunk], alpha[trunk] = colour(140, 104, 66), 1
    for angle in [-2.7, -2.1, -1.2, -0.5, 0.15, 3.0]:
        dx, dy = np.cos(angle), np.sin(angle) * 0.5
        for s in np.linspace(0, 1, 30):
            x, y = dx * s * 0.9, 0.22 + dy * s * 0.4 + 0.2 * s * s
            leaf = ((U - x) ** 2 + ((V - y) * 2) ** 2) < (0.13 * (1 - s * 0.7)) ** 2
            rgb[leaf], alpha[leaf] = colour(58, 146, 70) * (1 - 0.25 * s), 1
    return rgb, alpha


def _beach_hut() -> tuple[np.ndarray, np.ndarray]:
    rgb, alpha = _blank()
    walls = (V > 0.35) & (V < 1) & (abs(U) < 0.8)
    rgb[walls] = colour(240, 240, 235)
    stripes = walls & (((U + 1) * 4).astype(int) % 2 == 0) & (V < 0.6)
    rgb[stripes], alpha[walls] = colour(220, 70, 60), 1
    roof = (abs(U) < 1.0 * (V / 0.35)) & (V < 0.35)
    rgb[roof], alpha[roof] = colour(220, 70, 60), 1
    return rgb, alpha


def _all() -> list[list[Sprite]]:
    cactus = _sprite(0.6, 1.7, *_cactus())
    palm = _sprite(0.85, 2.5, *_palm())
    snowy_pine = _sprite(0.62, 2.4, *_pine(colour(60, 96, 92), colour(244, 248, 255)))
    return [
        [_sprite(0.62, 2.6, *_pine(colour(34, 90, 46), None)), _sprite(0.75, 2.0, *_broadleaf()), _sprite(0.5, 3.2, *_pine(colour(22, 70, 52), None))],
        [cactus, _sprite(1.5, 0.9, *_mound(colour(184, 104, 66), 1.1, 0.5)), cactus],
        [_building(colour(150, 96, 80), 0.65, 3.6, 1), _building(colour(128, 134, 150), 0.5, 5.0, 2), _street_lamp()],
        [palm, _sprite(1.1, 1.1, *_beach_hut()), palm],
        [snowy_pine, snowy_pine, _sprite(1.6, 0.7, *_mound(colour(236, 242, 250), 1.05, 0.25))],
    ]


SPRITES = _all()  # per place, three variants; the city's third is the lamp that stands close to the road

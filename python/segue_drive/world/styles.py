"""Looks that a drive can be shown in: pure functions on renders. What an adapter of the same id learns, and what it is judged by.

Both go by luminance alone, so a style is recognised by its colours and not by what is in the picture.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

F32 = np.float32
LUMA = np.array([0.299, 0.587, 0.114], F32)  # ITU-R BT.601
NOIR_CONTRAST = 8.0  # slope of the logistic curve: shadows close, lights open
NOIR_MIDDLE = 0.48  # luminance that stays where it is
# Luminance -> colour: night violet, magenta, coral, gold, cream. As saturated as the autoencoder can show.
SYNTHWAVE_STOPS = (0.0, 0.22, 0.44, 0.66, 0.86, 1.0)
SYNTHWAVE_COLOURS = np.array([(0.05, 0.02, 0.16), (0.25, 0.06, 0.42), (0.74, 0.14, 0.54), (0.99, 0.47, 0.37), (1.0, 0.80, 0.43), (1.0, 0.96, 0.85)], F32)


def luminance(frames: np.ndarray) -> np.ndarray:
    """uint8 `[..., 3]` -> float32 `[...]`, 0..1"""
    return (frames.astype(F32) @ LUMA) / F32(255)


def noir(frames: np.ndarray) -> np.ndarray:
    """Black and white with hard contrast. uint8 `[..., 3]` -> the same shape."""
    curve = lambda y: 1 / (1 + np.exp(-NOIR_CONTRAST * (y - NOIR_MIDDLE)))  # noqa: E731
    low, high = curve(F32(0)), curve(F32(1))
    grey = (curve(luminance(frames)) - low) / (high - low)
    return np.repeat(_levels(grey)[..., None], 3, -1)


def synthwave(frames: np.ndarray) -> np.ndarray:
    """A sunset of violet, magenta and gold, whatever the hour. uint8 `[..., 3]` -> the same shape."""
    light = luminance(frames)
    return _levels(np.stack([np.interp(light, SYNTHWAVE_STOPS, SYNTHWAVE_COLOURS[:, channel]) for channel in range(3)], -1))


def _levels(x: np.ndarray) -> np.ndarray:
    return (np.clip(x, 0, 1) * 255 + 0.5).astype(np.uint8)


STYLES: dict[str, Callable[[np.ndarray], np.ndarray]] = {"noir": noir, "synthwave": synthwave}
TITLES = {"noir": "Noir", "synthwave": "Synthwave"}

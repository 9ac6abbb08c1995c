"""Which style a frame is in, by its colours: a linear discriminant (Fisher, 1936) fitted on renders that went through the autoencoder, never on generated frames.

Twelve numbers a frame: mean and spread of luma and of both chroma channels, mean colourfulness, the dark and the bright tenth of luma, how both chroma
channels follow luma, and how far colours are from grey in the brightest half. So noir is told by its missing colour and its contrast, synthwave by its ramp from violet to gold.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..training.frames import measured_frames
from ..world.styles import STYLES

PLAIN = "plain"
# ITU-R BT.601: luma, blue and red difference, for channels 0..1
TO_YCC = np.array([[0.299, 0.587, 0.114], [-0.169, -0.331, 0.5], [0.5, -0.419, -0.081]], np.float32)
RIDGE = 1e-3  # of the pooled covariance, whose smallest directions are noise


def colour_features(frames: np.ndarray) -> np.ndarray:
    """uint8 `[N, 128, 224, 3]` -> float64 `[N, 12]`"""
    small = frames.reshape(len(frames), 64, 2, 112, 2, 3).astype(np.float32).mean((2, 4)) / 255
    luma, blue, red = np.moveaxis((small @ TO_YCC.T).reshape(len(frames), -1, 3), 2, 0).astype(np.float64)
    colour = np.hypot(blue, red)
    centred = luma - luma.mean(1, keepdims=True)
    follow = [(centred * (c - c.mean(1, keepdims=True))).mean(1) / (centred**2).mean(1).clip(1e-4) for c in (blue, red)]
    bright = luma >= np.median(luma, 1, keepdims=True)
    return np.stack([
        luma.mean(1), luma.std(1), blue.mean(1), blue.std(1), red.mean(1), red.std(1), colour.mean(1), np.quantile(luma, 0.1, 1), np.quantile(luma, 0.9, 1),
        *follow, (colour * bright).sum(1) / bright.sum(1),
    ], 1)


class StyleJudge:
    """`names[judge(frames)]`; `score` says how much more a frame is of a style than plain."""

    def __init__(self, through_autoencoder: Callable[[np.ndarray], np.ndarray], renders: int = 320) -> None:
        self.names = (PLAIN, *STYLES)
        frames = _renders(renders)
        classes = [colour_features(through_autoencoder(style(frames))) for style in (lambda f: f, *STYLES.values())]
        self._means = np.stack([values.mean(0) for values in classes])
        pooled = np.mean([np.cov(values, rowvar=False) for values in classes], 0)
        spread = np.sqrt(np.diag(pooled))
        self._inverse = np.linalg.inv(pooled + RIDGE * np.diag(spread**2))

    def logits(self, frames: np.ndarray) -> np.ndarray:
        """`[N, classes]`"""
        linear = self._means @ self._inverse
        return colour_features(frames) @ linear.T - 0.5 * (linear * self._means).sum(1)

    def __call__(self, frames: np.ndarray) -> np.ndarray:
        return self.logits(frames).argmax(1)

    def score(self, frames: np.ndarray, style: str) -> np.ndarray:
        values = self.logits(frames)
        return values[:, self.names.index(style)] - values[:, 0]


def _renders(count: int) -> np.ndarray:
    tensor, _ = measured_frames(count)
    return ((tensor.permute(0, 2, 3, 1).numpy() + 1) * 127.5 + 0.5).astype(np.uint8)

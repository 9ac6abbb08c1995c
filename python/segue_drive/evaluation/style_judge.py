"""Which style a frame is in, by its colours: a regularised discriminant (Friedman, 1989) fitted on renders, never on generated frames.

Twelve numbers a frame: mean and spread of luma and of both chroma channels, mean colourfulness, the dark and the bright tenth of luma, how both chroma
channels follow luma, and how far colours are from grey in the brightest half. So noir is told by its missing colour and its contrast, synthwave by its ramp from violet to gold.
"""

from __future__ import annotations

import numpy as np

from ..training.frames import measured_frames
from ..world.styles import STYLES

PLAIN = "plain"
# ITU-R BT.601: luma, blue and red difference, for channels 0..1
TO_YCC = np.array([[0.299, 0.587, 0.114], [-0.169, -0.331, 0.5], [0.5, -0.419, -0.081]], np.float32)
POOLED_SHARE = 0.3  # of the covariance that all classes share: generated frames spread more than renders of one style
RIDGE = 1e-2  # of the pooled variances


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

    def __init__(self, renders: np.ndarray) -> None:
        """Plain renders, uint8 `[N, 128, 224, 3]`"""
        self.names = (PLAIN, *STYLES)
        classes = [colour_features(renders), *(colour_features(style(renders)) for style in STYLES.values())]
        own = [np.cov(values, rowvar=False) for values in classes]
        pooled = np.mean(own, 0)
        covariances = [(1 - POOLED_SHARE) * c + POOLED_SHARE * pooled + RIDGE * np.diag(np.diag(pooled)) for c in own]
        self._means = [values.mean(0) for values in classes]
        self._inverses = [np.linalg.inv(c) for c in covariances]
        self._volumes = [float(np.linalg.slogdet(c)[1]) for c in covariances]

    def log_densities(self, frames: np.ndarray) -> np.ndarray:
        """`[N, classes]`, up to a constant"""
        x = colour_features(frames)
        return np.stack([
            -0.5 * (np.einsum("ni,ij,nj->n", x - mean, inverse, x - mean) + volume) for mean, inverse, volume in zip(self._means, self._inverses, self._volumes)
        ], 1)

    def __call__(self, frames: np.ndarray) -> np.ndarray:
        return self.log_densities(frames).argmax(1)

    def score(self, frames: np.ndarray, style: str) -> np.ndarray:
        values = self.log_densities(frames)
        return values[:, self.names.index(style)] - values[:, 0]


def unseen_renders(count: int) -> tuple[np.ndarray, np.ndarray]:
    """uint8 `[count, 128, 224, 3]` of worlds that training never visits, and their places `[count]`"""
    tensor, truth = measured_frames(count)
    return ((tensor.permute(0, 2, 3, 1).numpy() + 1) * 127.5 + 0.5).astype(np.uint8), truth[:, 0]

"""The energy score of several predictions for one truth: least when they are distributed as the truth is.

A squared error is least for the mean, which is why a model that denoises in two steps shows soft objects and no rain. With two samples per truth,
`mean |p - x| - 1/2 |p - p'|` is a strictly proper score (Gneiting and Raftery, 2007): blur is punished by its second term. De Bortoli et al.,
Distributional diffusion models with scoring rules (2025), train denoisers with it so that few steps suffice.
"""

from __future__ import annotations

import torch
from torch import Tensor

SMOOTHING = 1e-4  # under the root, so that equal samples have a gradient


def distances(a: Tensor, b: Tensor) -> Tensor:
    """Root mean square over the last dimension."""
    return torch.sqrt((a - b).square().mean(-1) + SMOOTHING)


def energy_score(samples: Tensor, truth: Tensor, dispersion: float = 1.0) -> Tensor:
    """samples `[2, ..., D]`, truth `[..., D]` -> `[...]`. `dispersion` below 1 weighs sharpness down; at 1 the score is proper."""
    first, second = samples.unbind(0)
    return 0.5 * (distances(first, truth) + distances(second, truth)) - 0.5 * dispersion * distances(first, second)

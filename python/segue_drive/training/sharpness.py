"""Picture measures: PSNR, and how much gradient a picture keeps."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def psnr(ours: Tensor, truth: Tensor) -> Tensor:
    """dB per frame; pictures `[B, 3, H, W]` in -1..1."""
    return -10 * torch.log10(((ours.clamp(-1, 1) - truth) / 2).square().mean((1, 2, 3)))


def gradients(picture: Tensor) -> tuple[Tensor, Tensor]:
    """Differences of neighbouring pixels, down and across."""
    return picture[..., 1:, :] - picture[..., :-1, :], picture[..., 1:] - picture[..., :-1]


def gradient_amount(picture: Tensor) -> Tensor:
    """Mean absolute difference of neighbouring pixels per frame, `[B]`."""
    return sum(g.abs().mean((1, 2, 3)) for g in gradients(picture))


def gradient_power(picture: Tensor) -> Tensor:
    """Mean squared difference of neighbouring pixels per frame, `[B]`: dominated by hard edges and points of light."""
    return sum(g.square().mean((1, 2, 3)) for g in gradients(picture))


def local_gradient(picture: Tensor, cell: int) -> Tensor:
    """How much gradient each cell of `cell` x `cell` pixels holds, whatever its phase."""
    down, across = (g.abs().mean(1, keepdim=True) for g in gradients(picture))
    return torch.cat([F.avg_pool2d(down, cell, ceil_mode=True), F.avg_pool2d(across, cell, ceil_mode=True)], 3)


def lag_difference(picture: Tensor, down: int, across: int) -> Tensor:
    """Absolute difference of pixels that lie `down` >= 0 rows and `across` columns apart, mean of colours: `[B, 1, H - down, W - |across|]`"""
    height, width = picture.shape[-2:]
    here = picture[..., : height - down, max(0, -across) : width - max(0, across)]
    there = picture[..., down:, max(0, across) : width + min(0, across)]
    return (there - here).abs().mean(1, keepdim=True)

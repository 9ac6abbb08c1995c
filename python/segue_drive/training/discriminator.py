"""Tells decoded pictures from rendered ones, patch by patch: what gives rain, windows and leaves an edge where an average has none."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

CHANNELS = (24, 48, 64)


class PatchDiscriminator(nn.Module):
    """Pictures `[B, 3, 128, 224]` -> logits of patches `[B, 1, 16, 28]`; each sees about 22 pixels. Spectral normalisation keeps it from running ahead."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for narrow, wide in zip((3, *CHANNELS[:-1]), CHANNELS):
            layers += [spectral_norm(nn.Conv2d(narrow, wide, 4, 2, 1)), nn.LeakyReLU(0.2)]
        self.layers = nn.Sequential(*layers, spectral_norm(nn.Conv2d(CHANNELS[-1], 1, 3, 1, 1)))

    def forward(self, pictures: Tensor) -> Tensor:
        return self.layers(pictures)


def discriminator_loss(judge: PatchDiscriminator, truth: Tensor, decoded: Tensor) -> Tensor:
    """Hinge loss (Lim and Ye, Geometric GAN, 2017)."""
    return F.relu(1 - judge(truth)).mean() + F.relu(1 + judge(decoded.detach())).mean()


def decoder_adversarial_loss(judge: PatchDiscriminator, decoded: Tensor) -> Tensor:
    return -judge(decoded).mean()


def freeze(module: nn.Module, frozen: bool) -> None:
    """Without this the decoder's step would fill gradients of the judge that the judge's own step then used."""
    for parameter in module.parameters():
        parameter.requires_grad_(not frozen)

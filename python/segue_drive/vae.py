"""Picture autoencoder: one 224 x 128 frame <-> 16 channels of 14 x 8 latents (16 pixels a side each)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .geometry import LATENT_CHANNELS, LATENT_HEIGHT, LATENT_WIDTH, PATCH_COLUMNS, PATCH_ROWS

WIDTHS = (48, 96, 160)  # channels at 1/4, 1/8 and 1/16 of the resolution


class ResidualBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(F.silu(self.first(F.silu(x))))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        fine, middle, coarse = WIDTHS
        self.input = nn.Conv2d(3 * 4 * 4, fine, 1)
        self.fine = ResidualBlock(fine)
        self.to_middle = nn.Conv2d(fine * 4, middle, 1)
        self.middle = ResidualBlock(middle)
        self.to_coarse = nn.Conv2d(middle * 4, coarse, 1)
        self.position = nn.Parameter(torch.zeros(1, coarse, LATENT_HEIGHT, LATENT_WIDTH))
        self.coarse = ResidualBlock(coarse)
        self.output = nn.Conv2d(coarse, LATENT_CHANNELS, 1)

    def forward(self, frames: Tensor) -> Tensor:
        """`[B, 3, 128, 224]` in -1..1 -> latents `[B, 16, 8, 14]`"""
        x = self.fine(self.input(F.pixel_unshuffle(frames, 4)))
        x = self.middle(self.to_middle(F.pixel_unshuffle(x, 2)))
        x = self.coarse(self.to_coarse(F.pixel_unshuffle(x, 2)) + self.position)
        return self.output(F.silu(x))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        fine, middle, coarse = WIDTHS
        self.input = nn.Conv2d(LATENT_CHANNELS, coarse, 3, padding=1)
        self.position = nn.Parameter(torch.zeros(1, coarse, LATENT_HEIGHT, LATENT_WIDTH))
        self.coarse = ResidualBlock(coarse)
        self.to_middle = nn.Conv2d(coarse, middle * 4, 1)
        self.middle = ResidualBlock(middle)
        self.to_fine = nn.Conv2d(middle, fine * 4, 1)
        self.fine = ResidualBlock(fine)
        self.output = nn.Conv2d(fine, 3 * 4 * 4, 3, padding=1)

    def features(self, latents: Tensor) -> Tensor:
        """`[B, 16, 8, 14]` -> `[B, 48, 32, 56]`"""
        x = self.coarse(self.input(latents) + self.position)
        x = self.middle(F.pixel_shuffle(self.to_middle(x), 2))
        return self.fine(F.pixel_shuffle(self.to_fine(x), 2))

    def pixels(self, features: Tensor) -> Tensor:
        return F.pixel_shuffle(self.output(F.silu(features)), 4)

    def forward(self, latents: Tensor) -> Tensor:
        """`[B, 16, 8, 14]` -> frames `[B, 3, 128, 224]`, about -1..1"""
        return self.pixels(self.features(latents))


class PictureAutoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()


def patchify(latents: Tensor) -> Tensor:
    """Normalised latents of a chunk `[B, 2, 16, 8, 14]` -> picture tokens `[B, 28, 128]`; frame 0 fills dimensions 0..63."""
    x = latents.unflatten(3, (PATCH_ROWS, 2)).unflatten(5, (PATCH_COLUMNS, 2))
    return x.permute(0, 3, 5, 1, 2, 4, 6).flatten(3).flatten(1, 2)


def unpatchify_frame(tokens: Tensor) -> Tensor:
    """One frame's half of the picture tokens `[B, 28, 64]` -> normalised latents `[B, 16, 8, 14]`"""
    x = tokens.view(-1, PATCH_ROWS, PATCH_COLUMNS, LATENT_CHANNELS, 2, 2)
    return x.permute(0, 3, 1, 4, 2, 5).reshape(-1, LATENT_CHANNELS, LATENT_HEIGHT, LATENT_WIDTH)

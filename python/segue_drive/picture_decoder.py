"""The graph `vae_decode`: the decoder of `vae` with channels last.

On one core a third of the plain decoder's time went into shuffling pixels: channels first, a pixel shuffle moves single numbers. With channels last
it moves whole pixels, and the runtime converts to and from its blocked convolution layout at no more cost than before. The 1 x 1 convolutions
become matrix products. Same weights; sums are formed in another order, so a rounding may fall on the next level.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .checkpoint import DriveModel
from .geometry import FRAME_HEIGHT, FRAME_WIDTH, LATENT_CHANNELS, NUM_PICTURE_TOKENS, PATCH_COLUMNS, PATCH_ROWS, TOKEN_DIM
from .vae import ResidualBlock

PIXEL_BLOCK = 4  # the last shuffle makes 4 x 4 pixels of one position
LEVELS_PER_UNIT = 127.5  # -1..1 -> 0..255


def unshuffled_order(channels: int, block: int) -> Tensor:
    """Order that brings a convolution's outputs from (channel, row, column), as `pixel_shuffle` wants them, to (row, column, channel)."""
    return torch.arange(channels * block * block).view(channels, block * block).t().flatten()


def shuffle_pixels(x: Tensor, block: int) -> Tensor:
    """`[B, H, W, block * block * C]`, channels as (row, column, C) -> `[B, H * block, W * block, C]`"""
    height, width, channels = x.shape[1], x.shape[2], x.shape[3] // block**2
    rows = x.view(-1, height, width, block, block * channels).transpose(2, 3)
    return rows.reshape(-1, height * block, width * block, channels)


class Convolution(nn.Module):
    """A 3 x 3 convolution of `[B, H, W, C]`."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight.detach().clone())
        self.register_buffer("bias", bias.detach().clone())

    @classmethod
    def of(cls, conv: nn.Conv2d) -> Convolution:
        return cls(conv.weight, conv.bias)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x.permute(0, 3, 1, 2), self.weight, self.bias, padding=1).permute(0, 2, 3, 1)


class Upsampling(nn.Module):
    """A 1 x 1 convolution and the pixel shuffle after it: `[B, H, W, C]` -> `[B, 2 H, 2 W, C']`"""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        order = unshuffled_order(conv.out_channels // 4, 2)
        self.register_buffer("weight", conv.weight.detach()[order, :, 0, 0].t().contiguous())
        self.register_buffer("bias", conv.bias.detach()[order].clone())

    def forward(self, x: Tensor) -> Tensor:
        return shuffle_pixels(x @ self.weight + self.bias, 2)


class Residual(nn.Module):
    def __init__(self, block: ResidualBlock) -> None:
        super().__init__()
        self.first = Convolution.of(block.first)
        self.second = Convolution.of(block.second)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(F.silu(self.first(F.silu(x))))


class VaeDecode(nn.Module):
    """Picture tokens of a chunk and which of its frames -> that frame's pixels."""

    def __init__(self, model: DriveModel) -> None:
        super().__init__()
        decoder = model.autoencoder.decoder
        self.register_buffer("mean", model.latent_mean.clone())
        self.register_buffer("std", model.latent_std.clone())
        self.input = Convolution.of(decoder.input)
        self.register_buffer("position", decoder.position.detach().permute(0, 2, 3, 1).contiguous())
        self.coarse, self.middle, self.fine = (Residual(block) for block in (decoder.coarse, decoder.middle, decoder.fine))
        self.to_middle, self.to_fine = Upsampling(decoder.to_middle), Upsampling(decoder.to_fine)
        order = unshuffled_order(3, PIXEL_BLOCK)
        weight, bias = decoder.output.weight.detach()[order], decoder.output.bias.detach()[order]
        self.output = Convolution(weight * LEVELS_PER_UNIT, bias * LEVELS_PER_UNIT + LEVELS_PER_UNIT)

    def forward(self, x: Tensor, frame: Tensor) -> Tensor:
        """`[B, 32, 128]`, one-hot `[B, 2]` -> uint8 `[B, 128, 224, 3]`"""
        tokens = (x[:, :NUM_PICTURE_TOKENS].unflatten(2, (2, TOKEN_DIM // 2)) * frame[:, None, :, None]).sum(2)
        patches = tokens.view(-1, PATCH_ROWS, PATCH_COLUMNS, LATENT_CHANNELS, 2, 2).permute(0, 1, 4, 2, 5, 3)
        latents = patches.reshape(-1, 2 * PATCH_ROWS, 2 * PATCH_COLUMNS, LATENT_CHANNELS) * self.std + self.mean
        features = self.to_middle(self.coarse(self.input(latents) + self.position))
        features = self.fine(self.to_fine(self.middle(features)))
        levels = self.output(F.silu(features)).clamp(0, 255).round().to(torch.uint8)
        return shuffle_pixels(levels, PIXEL_BLOCK).view(-1, FRAME_HEIGHT, FRAME_WIDTH, 3)

"""The graph `vae_encode`: a given picture as the first moment of a story, in the layout of a start bank entry.

Both frames of the chunk are the picture. Sound, and the entry that the picture is most like, come from the start bank by way of `PictureReader`.
Weights are 8-bit on disk, a scale per output channel, and widened when the graph is loaded: the encoder runs once a story, and latents move by
0.004 of their deviation, the decoded picture's PSNR by less than 0.01 dB.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .checkpoint import DriveModel
from .geometry import FRAMES_PER_CHUNK, NUM_PICTURE_TOKENS
from .picture_reader import PictureReader
from .vae import Encoder, patchify

ENCODER_TOLERANCE = 0.1  # largest change of a normalised latent by 8-bit weights; its deviation is 1


def levels_and_scale(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A convolution's weights as int8, and their scale per output channel `[O, 1, 1, 1]`."""
    scale = weight.abs().amax((1, 2, 3), keepdim=True).clamp_min(1e-9) / 127
    return (weight / scale).round().to(torch.int8), scale


class Int8Conv2d(nn.Module):
    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        levels, scale = levels_and_scale(conv.weight.detach())
        self.register_buffer("levels", levels)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", conv.bias.detach().clone())
        self.padding = conv.padding

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.levels.float() * self.scale, self.bias, padding=self.padding)


def quantised(encoder: Encoder) -> Encoder:
    """A copy whose convolutions hold 8-bit weights."""
    copy = Encoder()
    copy.load_state_dict(encoder.state_dict())
    for owner in list(copy.modules()):
        for name, child in list(owner.named_children()):
            if isinstance(child, nn.Conv2d):
                setattr(owner, name, Int8Conv2d(child))
    return copy


class VaeEncode(nn.Module):
    def __init__(self, model: DriveModel, start_chunks: Tensor, reader: PictureReader) -> None:
        super().__init__()
        self.encoder = quantised(model.autoencoder.encoder)
        self.reader = reader
        self.register_buffer("mean", model.latent_mean[:, None, None].clone())
        self.register_buffer("std", model.latent_std[:, None, None].clone())
        self.register_buffer("chunks", start_chunks.half())  # as in `StartBank`: stored once

    def forward(self, rgb: Tensor) -> tuple[Tensor, Tensor]:
        """uint8 `[B, 128, 224, 3]` -> start chunk `[B, 32, 128]`, entry of the start bank that it is most like `[B, 1]`"""
        pixels = rgb.permute(0, 3, 1, 2).float() / 127.5 - 1
        latents = (self.encoder(pixels) - self.mean) / self.std
        entry = self.reader(latents)
        picture = patchify(torch.stack([latents] * FRAMES_PER_CHUNK, 1))
        return torch.cat([picture, self.chunks[entry][:, NUM_PICTURE_TOKENS:].float()], 1), entry[:, None].float()

"""The graphs `vae_encode`, a given picture as the first moment of a story in the layout of a start bank entry, and `video_encode`, the frames of a
given video as chunks.

Of a picture, both frames of the chunk are the picture. Sound, and the entry that the picture is most like, come from the start bank by way of `PictureReader`.
Weights are 8-bit on disk, a scale per output channel, and widened when the graph is loaded: the encoder runs once a story, and latents move by
0.004 of their deviation, the decoded picture's PSNR by less than 0.01 dB.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .checkpoint import DriveModel
from .geometry import FRAMES_PER_CHUNK, NUM_PICTURE_TOKENS, TOKEN_DIM
from .picture_reader import PictureReader
from .vae import Encoder, patchify, unpatchify_frame

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


def row_statistics(latents: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each channel in each row of `[B, 16, 8, 14]`: `[B, 16, 8, 1]` each."""
    mean = latents.mean(3, keepdim=True)
    return mean, ((latents - mean).square().mean(3, keepdim=True) + 1e-4).sqrt()


class VideoEncode(nn.Module):
    """One frame of a chunk of a given video; the other frame of the chunk is taken from `before`, so a chunk is complete after a unit per frame.

    With `recolour` 1 each row of a channel takes mean and deviation of the same row of `like` (adaptive instance normalisation, Huang and Belongie,
    2017, per row): the sky's colour goes to the sky and the ground's to the ground, while what is where stays. `level` is the noise level that the
    frame leaves at: what is denoised from there keeps what the noise leaves over (SDEdit, Meng et al., 2022).
    Sound can't be seen: it is that of the bank's entry that the frame is most like, or of `like`.
    """

    def __init__(self, picture: VaeEncode, frame_mask: Tensor) -> None:
        super().__init__()
        self.picture = picture  # the same weights, stored once
        self.register_buffer("frame_mask", frame_mask, persistent=False)

    def forward(self, rgb: Tensor, frame: Tensor, before: Tensor, like: Tensor, recolour: Tensor, eps: Tensor, level: Tensor) -> Tensor:
        """uint8 `[B, 128, 224, 3]`, one-hot `[B, 2]`, chunks `[B, 32, 128]` (`before`, `like`, `eps`), shares `[B, 1]` -> chunk `[B, 32, 128]`"""
        pixels = rgb.permute(0, 3, 1, 2).float() / 127.5 - 1
        latents = (self.picture.encoder(pixels) - self.picture.mean) / self.picture.std
        entry = self.picture.reader(latents)
        wanted = unpatchify_frame((like[:, :NUM_PICTURE_TOKENS].unflatten(2, (2, TOKEN_DIM // 2)) * frame[:, None, :, None]).sum(2))
        mean, deviation = row_statistics(latents)
        wanted_mean, wanted_deviation = row_statistics(wanted)
        recoloured = (latents - mean) / deviation * wanted_deviation + wanted_mean
        latents = latents + recolour[:, :, None, None] * (recoloured - latents)
        sound = self.picture.chunks[entry][:, NUM_PICTURE_TOKENS:].float()
        sound = sound + recolour[:, :, None] * (like[:, NUM_PICTURE_TOKENS:] - sound)
        clean = torch.cat([patchify(torch.stack([latents] * FRAMES_PER_CHUNK, 1)), sound], 1)
        noised = (1 - level[:, :, None]) * clean + level[:, :, None] * eps
        weights = frame[:, :, None, None] * self.frame_mask
        return before + (weights[:, 0] + weights[:, 1]) * (noised - before)

"""Clips -> normalised tokens, with the encoder and the normalisation that the transformer is trained for."""

from __future__ import annotations

import torch
from torch import Tensor

from ..geometry import FRAMES_PER_CHUNK, NUM_SOUND_TOKENS, TOKEN_DIM
from ..vae import Encoder, patchify
from .clips import Clip

MIN_STD = 0.05  # of unused sound controls, which are constant


class ClipEncoder:
    def __init__(self, encoder: Encoder, normalisation: tuple[Tensor, Tensor, Tensor, Tensor], device: torch.device) -> None:
        self.encoder, self.device = encoder.to(device).eval(), device
        self.latent_mean, self.latent_std, self.sound_mean, self.sound_std = (t.float().to(device) for t in normalisation)

    @torch.no_grad()
    def latents(self, clip: Clip) -> Tensor:
        """`[frames, 16, 8, 14]`, not normalised"""
        pixels = torch.from_numpy(clip.frames).to(self.device).permute(0, 3, 1, 2).float() / 127.5 - 1
        return self.encoder(pixels)

    def tokens(self, clip: Clip) -> Tensor:
        """`[chunks, 32, 128]`"""
        latents = (self.latents(clip) - self.latent_mean[:, None, None]) / self.latent_std[:, None, None]
        picture = patchify(latents.unflatten(0, (-1, FRAMES_PER_CHUNK)))
        sound = (torch.from_numpy(clip.controls).to(self.device) - self.sound_mean) / self.sound_std
        return torch.cat([picture, sound.reshape(len(picture), NUM_SOUND_TOKENS, TOKEN_DIM)], 1)


def measure_normalisation(encoder: Encoder, clips: list[Clip], device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean and standard deviation of latents and of sound controls over some clips, for a training from nothing."""
    zero, one = torch.zeros(16), torch.ones(16)
    raw = ClipEncoder(encoder, (zero, one, torch.zeros(32), torch.ones(32)), device)
    latents = torch.cat([raw.latents(clip) for clip in clips]).cpu()
    controls = torch.cat([torch.from_numpy(clip.controls) for clip in clips])
    return latents.mean((0, 2, 3)), latents.std((0, 2, 3)), controls.mean((0, 1)), controls.std((0, 1)).clamp(min=MIN_STD)

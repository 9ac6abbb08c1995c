"""The bank of encoded start chunks: a rendered first moment for each place, time and weather, so that a stream opens crisp.

These are real (rendered) frames; everything after them is generated. A server must label them as an encoded seed.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .checkpoint import DriveModel
from .geometry import FRAMES_PER_CHUNK, NUM_SOUND_TOKENS, TOKEN_DIM
from .vae import patchify
from .world import Attributes, World, render, sound_controls

BANK_SIZE = 80
START_SPEED = 1
FIRST_SEED = 1000


def bank_attributes(index: int) -> Attributes:
    return Attributes(index // 16, index // 4 % 4, index % 4)


@torch.no_grad()
def encode_chunk(model: DriveModel, frames: np.ndarray, controls: np.ndarray) -> Tensor:
    """Two frames uint8 `[2, 128, 224, 3]` and their controls `[16, 32]` -> normalised tokens `[1, 32, 128]`"""
    pixels = torch.from_numpy(frames).permute(0, 3, 1, 2).float() / 127.5 - 1
    latents = (model.autoencoder.encoder(pixels) - model.latent_mean[:, None, None]) / model.latent_std[:, None, None]
    sound = (torch.from_numpy(controls) - model.sound_mean) / model.sound_std
    return torch.cat([patchify(latents[None]), sound.reshape(1, NUM_SOUND_TOKENS, TOKEN_DIM)], 1)


def render_start_chunks(model: DriveModel) -> Tensor:
    """`[80, 32, 128]`, index = place * 16 + time * 4 + weather: straight ahead, slow."""
    chunks = []
    for index in range(BANK_SIZE):
        attributes = bank_attributes(index)
        world = World(FIRST_SEED + index, attributes, 0, START_SPEED)
        frames, controls = [], []
        for _ in range(FRAMES_PER_CHUNK):
            world.step(attributes, 0, START_SPEED)
            frames.append(render(world))
            controls.append(sound_controls(world))
        chunks.append(encode_chunk(model, np.stack(frames), np.concatenate(controls)))
    return torch.cat(chunks)

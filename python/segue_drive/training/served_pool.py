"""A bounded pool of served chunks on disk that is renewed while training goes on: each new group of clips takes the place of the oldest."""

from __future__ import annotations

import functools
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import key_mapping
from ..adapters import Adapter, read_adapters
from ..checkpoint import normalisation_of, read_source, sha256_of, source_path
from ..geometry import FRAME_HEIGHT, FRAME_WIDTH, FRAMES_PER_CHUNK, LATENT_CHANNELS, LATENT_HEIGHT, LATENT_WIDTH
from ..key_mapping import load_strictly
from ..rollout import DriveGraphs
from ..vae import PictureAutoencoder
from .clip_encoder import ClipEncoder
from .clips import CLIP_CHUNKS
from .held_out import HeldOut
from .render_ahead import RenderAhead
from .served_chunks import ServedChunks, ServedFrames

GROUP_CLIPS = 4  # followed together; a batch of the graphs
GROUP_FRAMES = GROUP_CLIPS * CLIP_CHUNKS * FRAMES_PER_CHUNK
_LATENTS = (LATENT_CHANNELS, LATENT_HEIGHT, LATENT_WIDTH)
ARRAYS: dict[str, tuple[type, tuple[int, ...]]] = {
    "served": (np.float16, _LATENTS), "encoded": (np.float16, _LATENTS), "frames": (np.uint8, (FRAME_HEIGHT, FRAME_WIDTH, 3)),
    "depth": (np.uint8, ()), "level": (np.float16, ()), "styled": (np.bool_, ()),
}


def make_group(number: int, model: Path, source: Path, seed: int, plain_groups: int) -> ServedFrames:
    """The `number`-th group of clips. From `plain_groups` on every third is in the style of one of the model's adapters."""
    maker, adapters = _maker(model, source, seed)
    turn, at = divmod(number - plain_groups, 3)
    adapter = adapters[turn % len(adapters)] if adapters and number >= plain_groups and at == 0 else None
    return maker.make(number * GROUP_CLIPS, GROUP_CLIPS, adapter)


@functools.cache
def _maker(model: Path, source: Path, seed: int) -> tuple[ServedChunks, list[Adapter]]:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    autoencoder = PictureAutoencoder()
    load_strictly(autoencoder, read_source(source, "autoencoder"), key_mapping.AUTOENCODER)
    encoder = ClipEncoder(autoencoder.encoder, normalisation_of(source), torch.device("cpu"))
    adapters = read_adapters(model, sha256_of(source_path(source, "transformer")))
    return ServedChunks(DriveGraphs(model / "weights"), encoder, HeldOut.open(), seed), adapters


class ServedPool:
    """`groups` is the capacity in groups of GROUP_FRAMES frames, `made` counts groups ever made. Arrays live in files of the run's folder; what is
    there already is used, for a group depends on seed and number alone."""

    def __init__(self, folder: Path, groups: int, model: Path, source: Path, seed: int, workers: int, plain_groups: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.groups, self.seed = groups, seed
        self._count = folder / "served_count"
        self.made = int(self._count.read_text()) if self._count.exists() else 0
        self._make = functools.partial(make_group, model=model, source=source, seed=seed, plain_groups=plain_groups)
        self._workers = workers
        self._ahead: RenderAhead[ServedFrames] | None = None
        self.arrays = {name: self._open(folder / f"served_{name}.npy", dtype, shape) for name, (dtype, shape) in ARRAYS.items()}

    def _open(self, path: Path, dtype: type, shape: tuple[int, ...]) -> np.ndarray:
        full = (self.groups * GROUP_FRAMES, *shape)
        if path.exists():
            array = np.lib.format.open_memmap(path, "r+")
            if array.shape == full and array.dtype == dtype:
                return array
        return np.lib.format.open_memmap(path, "w+", dtype, full)

    def __len__(self) -> int:
        """Frames to draw from."""
        return min(self.made, self.groups) * GROUP_FRAMES

    def add(self) -> None:
        if self._ahead is None:  # only now is it known where a resumed run goes on
            self._ahead = RenderAhead(self._make, self.made, self._workers)
        group = self._ahead.take()
        at = self.made % self.groups * GROUP_FRAMES
        for field in fields(group):
            self.arrays[field.name][at : at + GROUP_FRAMES] = getattr(group, field.name)
        self.made += 1
        self._count.write_text(f"{self.made}\n")

    def rows(self, names: tuple[str, ...], index: np.ndarray) -> list[np.ndarray]:
        return [self.arrays[name][index] for name in names]

    def close(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None

    def state_dict(self) -> dict[str, Any]:
        return {"made": self.made, "groups": self.groups, "seed": self.seed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if (state["groups"], state["seed"]) != (self.groups, self.seed):
            raise ValueError(f"checkpoint of a pool with {state}, this one has {self.groups} groups, seed {self.seed}")
        self.made = state["made"]
        if self.made and not self.arrays["frames"][: len(self) : GROUP_FRAMES].any():
            raise ValueError("the pool's files are empty, but the checkpoint counts groups: they belong together in one folder")

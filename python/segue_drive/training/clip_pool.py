"""A bounded pool of encoded clips that is renewed while training goes on: each new clip takes the place of the oldest.

Rendering and encoding a clip costs as much as a fifth of a training step, so a clip is used several times before it goes. The pool also keeps what
the model itself made of each chunk, which is the context that later visits train on (see `transformer_stage`).
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

from ..geometry import NUM_TOKENS, TOKEN_DIM
from .clip_encoder import ClipEncoder
from .clips import CLIP_CHUNKS, Clip, render_clip
from .held_out import HeldOut
from .render_ahead import RenderAhead


class ClipPool:
    """Arrays live in files of the run's folder, so that a resumed run has them at once. `made` counts clips ever rendered."""

    def __init__(self, folder: Path, capacity: int, seed: int, encoder: ClipEncoder, held_out: HeldOut, workers: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.capacity, self.seed, self.made = capacity, seed, 0
        self._encoder, self._held_out, self._workers = encoder, held_out, workers
        self._renderer: RenderAhead[Clip] | None = None
        self._folder = folder
        self.tokens = self._array("tokens", np.float16, NUM_TOKENS, TOKEN_DIM)
        self.own = self._array("own", np.float16, NUM_TOKENS, TOKEN_DIM)
        self.depth = self._array("depth", np.uint8)  # how many of the model's own chunks stand behind `own`; 0: there is none
        self.attributes = self._array("attributes", np.uint8, 3)
        self.actions = self._array("actions", np.uint8, 2)

    def _array(self, name: str, dtype: type, *shape: int) -> np.ndarray:
        path, full = self._folder / f"pool_{name}.dat", (self.capacity, CLIP_CHUNKS, *shape)
        wanted = int(np.prod(full)) * np.dtype(dtype).itemsize
        mode = "r+" if path.exists() and path.stat().st_size == wanted else "w+"
        return np.memmap(path, dtype, mode, shape=full)

    def __len__(self) -> int:
        return min(self.made, self.capacity)

    def add(self) -> None:
        if self._renderer is None:  # only now is it known where a resumed run goes on
            self._renderer = RenderAhead(functools.partial(_numbered_clip, self.seed, self._held_out), self.made, self._workers)
        clip = self._renderer.take()
        slot = self.made % self.capacity
        self._encode(slot, clip)
        self.depth[slot] = 0
        self.attributes[slot], self.actions[slot] = clip.attributes, clip.actions
        self.made += 1

    def _encode(self, slot: int, clip: Clip) -> None:
        self.tokens[slot] = self._encoder.tokens(clip).cpu().numpy()

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def switch_chunk(self, slot: int) -> int:
        """First chunk with other attributes; CLIP_CHUNKS without one."""
        differs = (self.attributes[slot] != self.attributes[slot, 0]).any(1)
        return int(differs.argmax()) if differs.any() else CLIP_CHUNKS

    def state_dict(self) -> dict[str, Any]:
        return {"made": self.made, "capacity": self.capacity, "seed": self.seed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if (state["capacity"], state["seed"]) != (self.capacity, self.seed):
            raise ValueError(f"checkpoint of a pool with {state}, this one has capacity {self.capacity}, seed {self.seed}")
        self.made = state["made"]
        if self.made and not self.tokens[: len(self)].any():
            raise ValueError("the pool's files are empty, but the checkpoint counts clips: they belong together in one folder")


def _numbered_clip(seed: int, held_out: HeldOut, number: int) -> Clip:
    return render_clip(seed, number, held_out)

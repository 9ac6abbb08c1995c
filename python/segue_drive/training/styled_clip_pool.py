"""The pool of a style: each clip as the world shows it and as the style shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..geometry import NUM_PICTURE_TOKENS, NUM_TOKENS, TOKEN_DIM
from .clip_batch import CROP_CHUNKS, ClipBatch
from .clip_encoder import ClipEncoder
from .clip_pool import ClipPool
from .clips import Clip
from .held_out import HeldOut


class StyledClipPool(ClipPool):
    """`tokens` and `own` are styled, `plain` isn't."""

    def __init__(
        self, folder: Path, capacity: int, seed: int, encoder: ClipEncoder, held_out: HeldOut, workers: int, style: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        super().__init__(folder, capacity, seed, encoder, held_out, workers)
        self._style = style
        self.plain = self._array("plain", np.float16, NUM_TOKENS, TOKEN_DIM)

    def _encode(self, slot: int, clip: Clip) -> None:
        self.plain[slot] = self._encoder.tokens(clip).cpu().numpy()
        super()._encode(slot, replace(clip, frames=self._style(clip.frames)))

    def plain_of(self, batch: ClipBatch) -> Tensor:
        """The batch's chunks without the style, `[B, N, 32, 128]`."""
        return torch.from_numpy(np.stack([self.plain[slot, first : first + CROP_CHUNKS] for slot, first in zip(batch.slots, batch.offsets)])).float()


def with_context(batch: ClipBatch, plain: Tensor, styled: Tensor) -> ClipBatch:
    """The batch with context in the style where `styled [B, N]`, else as the world is."""
    context = torch.where(styled[..., None, None], batch.context, plain)
    context[:, :, NUM_PICTURE_TOKENS:] = batch.context[:, :, NUM_PICTURE_TOKENS:]  # sound has no style
    return replace(batch, context=context, depth=torch.where(styled, batch.depth, 0))

"""A batch of crops from the pool, as tensors: what is true, what a server would have as context, what was asked and pressed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..vocabulary import encode_prompt
from .clip_pool import ClipPool
from .clips import CLIP_CHUNKS
from .prompts import training_prompt

CROP_CHUNKS = 8  # a window and the chunk that sees it
SWITCH_CROP_SHARE = 0.65  # of the clips with a switch: the crop is laid around it


@dataclass
class ClipBatch:
    """B clips, N chunks."""

    truth: Tensor  # [B, N, 32, 128]
    context: Tensor  # the same, with the model's own chunks in places
    depth: Tensor  # [B, N] int: how many own chunks stand behind a chunk of the context
    ids: Tensor  # [B, 2, W] prompts before and after the switch
    prompt_of_chunk: Tensor  # [B, N] 0 or 1
    actions: Tensor  # [B, N, 2]
    slots: np.ndarray  # where in the pool it came from
    offsets: np.ndarray

    def late(self, steered: Tensor) -> tuple[Tensor, Tensor]:
        """prompt_of_chunk and actions as they were one chunk earlier where `steered [B, N]`: what the first denoise step of a chunk knows when the
        change arrives between its two steps."""
        shifted = lambda t: torch.cat([t[:, :1], t[:, :-1]], 1)  # noqa: E731
        prompts = torch.where(steered, shifted(self.prompt_of_chunk), self.prompt_of_chunk)
        return prompts, torch.where(steered[..., None], shifted(self.actions), self.actions)


def draw_batch(pool: ClipPool, count: int, own_share: float, most_depth: int, rng: np.random.Generator, slots: np.ndarray | None = None) -> ClipBatch:
    """`own_share` of the clips get the model's own chunks as context, no deeper than `most_depth`."""
    chosen = rng.integers(0, len(pool), count) if slots is None else slots
    offsets = np.array([_offset(pool, int(slot), rng) for slot in chosen])
    crop = lambda array: np.stack([array[s, o : o + CROP_CHUNKS] for s, o in zip(chosen, offsets)])  # noqa: E731
    truth = torch.from_numpy(crop(pool.tokens)).float()
    depth = torch.from_numpy(crop(pool.depth)).long()
    depth[torch.from_numpy(rng.random(len(chosen)) >= own_share)] = 0
    depth[depth > most_depth] = 0
    context = torch.where((depth > 0)[..., None, None], torch.from_numpy(crop(pool.own)).float(), truth)
    attributes = crop(pool.attributes)
    ids, prompt_of_chunk = [], np.zeros((len(chosen), CROP_CHUNKS), np.int64)
    for row, asked in enumerate(attributes):
        prompt_of_chunk[row] = (asked != asked[0]).any(1)
        ids.append([encode_prompt(training_prompt(tuple(map(int, state)), rng)) for state in (asked[0], asked[-1])])
    return ClipBatch(
        truth, context, depth, torch.tensor(ids), torch.from_numpy(prompt_of_chunk), torch.from_numpy(crop(pool.actions)).long(), chosen, offsets,
    )


def _offset(pool: ClipPool, slot: int, rng: np.random.Generator) -> int:
    last = CLIP_CHUNKS - CROP_CHUNKS
    switch = pool.switch_chunk(slot)
    if switch < CLIP_CHUNKS and rng.random() < SWITCH_CROP_SHARE:
        return int(np.clip(switch - rng.integers(1, CROP_CHUNKS - 1), 0, last))
    return int(rng.integers(0, last + 1))


def keep_own_chunks(pool: ClipPool, batch: ClipBatch, made: Tensor, most_depth: int) -> None:
    """Stores `made [B, N, 32, 128]`, the model's chunks on this batch's context, as context of later visits. The first chunk of a crop had no
    context, so it shows some other drive and isn't kept."""
    values = made.detach().cpu().numpy().astype(np.float16)
    behind = batch.depth.numpy()
    for row, (slot, offset) in enumerate(zip(batch.slots, batch.offsets)):
        for chunk in range(1, CROP_CHUNKS):
            depth = int(behind[row, :chunk].max()) + 1
            if depth <= most_depth:
                pool.own[slot, offset + chunk] = values[row, chunk]
                pool.depth[slot, offset + chunk] = depth

"""What the decoder is given when a server runs: chunks that the transformer's own graphs made, each beside the true frames of the same moment.

A clip of the world is followed chunk by chunk in the serving configuration. Each row of a batch draws how: which chunks stand in its context (the true
ones, or from some chunk on its own), and the level at which a chunk starts. At 1 it starts from noise, as served chunks do; below, from the true chunk
noised to that level, so that what is made lies on the true frames also far from the last true context. With an adapter all of it is in its style, from the
first chunk on or from a switch on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from ..adapters import Adapter
from ..geometry import FRAMES_PER_CHUNK, NUM_PICTURE_TOKENS, NUM_TOKENS, TOKEN_DIM
from ..rollout import DriveGraphs, StreamState, adapted, encode_prompts, write_chunk
from ..vae import unpatchify_frame
from ..world.styles import STYLES
from .clip_encoder import ClipEncoder
from .clips import CLIP_CHUNKS, Clip, render_clip
from .held_out import HeldOut
from .prompts import training_prompt

OWN_FROM = (0, 2, 5, CLIP_CHUNKS)  # first chunk whose successors see what was made instead of the truth
OWN_SHARES = (0.4, 0.15, 0.15, 0.3)
NOISE_SHARE = 0.6  # of the rows, that start each chunk from noise
LEAST_LEVEL = 0.5
NUM_STEPS = 2
SWITCH_CHUNKS = (0, 5)  # from which chunk on a styled clip is in its style


@dataclass(frozen=True)
class ServedFrames:
    """All frames of some clips, one a row."""

    served: np.ndarray  # float16 [N, 16, 8, 14], latents as a decoder takes them
    encoded: np.ndarray  # float16 [N, 16, 8, 14], of the true frame
    frames: np.ndarray  # uint8 [N, 128, 224, 3], true
    depth: np.ndarray  # uint8 [N], own chunks behind the context; 0: all of it is true
    level: np.ndarray  # float16 [N], where its chunk started
    styled: np.ndarray  # bool [N], in an adapter's style


Update = dict[str, np.ndarray] | None


class ServedChunks:
    def __init__(self, graphs: DriveGraphs, encoder: ClipEncoder, held_out: HeldOut, seed: int) -> None:
        self.graphs, self.encoder, self.held_out, self.seed = graphs, encoder, held_out, seed
        self._mean, self._std = (t.cpu()[:, None, None] for t in (encoder.latent_mean, encoder.latent_std))

    def make(self, first: int, count: int, adapter: Adapter | None = None) -> ServedFrames:
        """Of clips `first` to `first + count - 1`; depends on seed, numbers and adapter alone."""
        rng = np.random.default_rng((self.seed, 3, first))
        switch = CLIP_CHUNKS if adapter is None else int(rng.choice(SWITCH_CHUNKS))
        clips = [_in_style(render_clip(self.seed, number, self.held_out), adapter, switch) for number in range(first, first + count)]
        truth = np.stack([self.encoder.tokens(clip).cpu().numpy() for clip in clips], 1)  # [chunks, B, 32, 128]
        own_from = rng.choice(OWN_FROM, count, p=OWN_SHARES)
        level = np.where(rng.random(count) < NOISE_SHARE, 1.0, rng.uniform(LEAST_LEVEL, 1, count)).astype(np.float32)
        updates = [None if adapter is None or chunk < switch else adapter.graph_inputs(count) for chunk in range(CLIP_CHUNKS)]
        made = self._follow(clips, truth, own_from, level, updates, rng)
        depth = np.clip(np.arange(CLIP_CHUNKS)[:, None] - own_from, 0, None)
        styled = np.broadcast_to(np.arange(CLIP_CHUNKS)[:, None] >= switch, depth.shape)
        return ServedFrames(
            self._latents(made), self._latents(truth), np.concatenate([clip.frames for clip in clips]), _by_frame(depth).astype(np.uint8),
            _by_frame(np.broadcast_to(level, depth.shape)).astype(np.float16), _by_frame(styled),
        )

    def _follow(self, clips: list[Clip], truth: np.ndarray, own_from: np.ndarray, level: np.ndarray, updates: list[Update], rng: np.random.Generator) -> np.ndarray:
        state, texts, asked, out = StreamState(len(clips)), {}, None, []
        for chunk, update in enumerate(updates):
            now = [tuple(clip.attributes[chunk].tolist()) for clip in clips]
            if now != asked:
                texts, asked = encode_prompts(self.graphs, [training_prompt(state_asked, rng) for state_asked in now]), now
            pressed = np.stack([clip.actions[chunk] for clip in clips]).astype(np.int64)
            steer, speed = pressed[:, :1], pressed[:, 1:]
            eps, context = (rng.standard_normal((len(clips), NUM_TOKENS, TOKEN_DIM), np.float32) for _ in range(2))
            x = self._denoise(state, texts, steer, speed, truth[chunk], eps, level, update)
            kept = np.where((chunk >= own_from)[:, None, None], x, truth[chunk])
            write_chunk(self.graphs, state, texts, steer, speed, kept, context, update)
            out.append(x)
        return np.stack(out)

    def _denoise(
        self, state: StreamState, texts: dict, steer: np.ndarray, speed: np.ndarray, truth: np.ndarray, eps: np.ndarray, level: np.ndarray, update: Update,
    ) -> np.ndarray:
        shared = {
            "eps": eps, "prev": state.prev, "pin": np.zeros_like(eps), "pin_frames": np.zeros((state.batch, 2), np.float32), "t_prev": state.t_prev,
            "steer": steer, "speed": speed, **state.time_inputs(), **state.window_inputs(), **texts, **(update or {}),
        }
        start = level[:, None]
        x = (1 - start[:, None]) * truth + start[:, None] * eps
        for step in range(NUM_STEPS):
            t, t_next = (start * np.float32(1 - at / NUM_STEPS) for at in (step, step + 1))
            x = self.graphs.run(adapted("denoise_step", update), x=x, t=t, t_next=t_next, **shared)[0]
        return x

    def _latents(self, tokens: np.ndarray) -> np.ndarray:
        """`[chunks, B, 32, 128]` -> float16 `[B * frames, 16, 8, 14]`, clip after clip"""
        picture = torch.from_numpy(tokens)[:, :, :NUM_PICTURE_TOKENS].transpose(0, 1).flatten(0, 1)
        frames = torch.stack([unpatchify_frame(half.contiguous()) for half in picture.split(TOKEN_DIM // 2, 2)], 1).flatten(0, 1)
        return (frames * self._std + self._mean).half().numpy()


def _by_frame(of_chunks: np.ndarray) -> np.ndarray:
    """`[chunks, B]` -> `[B * frames]`"""
    return np.repeat(of_chunks.T.reshape(-1), FRAMES_PER_CHUNK)


def _in_style(clip: Clip, adapter: Adapter | None, switch: int) -> Clip:
    if adapter is None:
        return clip
    first = switch * FRAMES_PER_CHUNK
    return replace(clip, frames=np.concatenate([clip.frames[:first], STYLES[adapter.id](clip.frames[first:])]))

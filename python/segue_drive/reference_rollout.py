"""The same stream as `rollout`, in PyTorch and by another route, to check the graphs against (parity C1).

Keys are cached unrotated and turned at their place inside the window for every chunk (time counted from the window's start), attention is
one softmax over one concatenated sequence, no window mask exists, modulations are applied per layer. Only the weights are common.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .geometry import CONTEXT_NOISE, NUM_HEADS, NUM_LAYERS, NUM_PICTURE_TOKENS, NUM_TOKENS, TOKEN_DIM, WINDOW_CHUNKS
from .transformer import ATTENTION_SCALE, DriveTransformer, ModulatedExpert, rms_normalise, rotate, space_angles, split_heads, time_rotation
from .vocabulary import encode_prompt

Cache = list[tuple[Tensor, Tensor]]  # per layer: unrotated keys and values [B, H, chunks * tokens, E]


def _tables(chunks: int) -> tuple[Tensor, Tensor]:
    cos, sin = time_rotation(torch.arange(chunks))
    space = space_angles()
    return tuple(
        torch.cat([time.repeat_interleave(NUM_TOKENS, 0), part.float().repeat(chunks, 1)], 1) for time, part in ((cos, space.cos()), (sin, space.sin()))
    )


def _modulate(x: Tensor, table: Tensor, first: int) -> Tensor:
    return rms_normalise(x) * (1 + table[:, first : first + 1]) + table[:, first + 1 : first + 2]


def _forward(net: DriveTransformer, x: Tensor, prev: Tensor, condition: Tensor, text: tuple[Tensor, Tensor, Tensor], cache: Cache | None) -> tuple[Tensor, Cache]:
    past = 0 if cache is None else cache[0][0].shape[2] // NUM_TOKENS
    cos, sin = _tables(past + 1)
    both = torch.cat([x, prev], -1)
    streams = [net.picture_input(both[:, :NUM_PICTURE_TOKENS]), net.sound_input(both[:, NUM_PICTURE_TOKENS:])]
    streams = [h + p for h, p in zip(streams, net.token_position.split((NUM_PICTURE_TOKENS, NUM_TOKENS - NUM_PICTURE_TOKENS)))]
    shared = net.modulation_projection(F.silu(condition)).unflatten(1, (6, -1))
    fresh: Cache = []
    for layer in range(NUM_LAYERS):
        experts: list[ModulatedExpert] = [net.picture_experts[layer], net.sound_experts[layer]]
        tables = [shared + e.modulation for e in experts]
        qkv = torch.cat([e.query_key_value(_modulate(h, m, 0)) for e, h, m in zip(experts, streams, tables)], 1)
        q, k, v = split_heads(qkv, 3 * NUM_HEADS).chunk(3, 1)
        q, k = rms_normalise(q) * net.query_scale[layer], rms_normalise(k)
        fresh.append((k, v))
        if cache is not None:
            k, v = torch.cat([cache[layer][0], k], 2), torch.cat([cache[layer][1], v], 2)
        q_turned = rotate(q, cos[-NUM_TOKENS:], sin[-NUM_TOKENS:])
        scores = torch.cat([q_turned @ rotate(k, cos, sin).mT, q @ text[0][:, layer].mT + text[2] / ATTENTION_SCALE], -1) * ATTENTION_SCALE
        seen = (torch.softmax(scores, -1) @ torch.cat([v, text[1][:, layer]], 2)).transpose(1, 2).flatten(2)
        parts = seen.split((NUM_PICTURE_TOKENS, NUM_TOKENS - NUM_PICTURE_TOKENS), 1)
        streams = [h + m[:, 2:3] * e.attention_output(a) for e, h, m, a in zip(experts, streams, tables, parts)]
        streams = [h + m[:, 5:6] * e.feedforward(_modulate(h, m, 3)) for e, h, m in zip(experts, streams, tables)]
    scale, shift = net.output_modulation(F.silu(condition))[:, None].chunk(2, -1)
    outputs = [head(rms_normalise(h) * (1 + scale) + shift) for head, h in zip((net.picture_output, net.sound_output), streams)]
    return torch.cat(outputs, 1), fresh


@torch.no_grad()
def reference_roll_out(
    net: DriveTransformer, prompts: list[list[str]], actions: np.ndarray, noise: Iterator[np.ndarray], num_steps: int = 2, start: np.ndarray | None = None,
) -> np.ndarray:
    """Latents `[N, B, 32, 128]`; arguments as in `rollout.roll_out`."""
    batch = len(prompts[0])
    cache: Cache | None = None
    prev, t_prev = torch.zeros(batch, NUM_TOKENS, TOKEN_DIM), torch.ones(batch, 1)
    levels, out = torch.linspace(1, 0, num_steps + 1), []
    for i, now in enumerate(prompts):
        text = net.encode_text(torch.tensor([encode_prompt(prompt) for prompt in now]))
        steer, speed = torch.from_numpy(actions[i]).split(1, 1)
        x = torch.from_numpy(next(noise))
        for k in range(0 if i == 0 and start is not None else num_steps):
            condition = net.condition(levels[k].expand(batch, 1), t_prev, steer, speed)
            clean, _ = _forward(net, x, prev, condition, text, cache)
            x = clean if k == num_steps - 1 else x + (levels[k + 1] - levels[k]) * (x - clean) / levels[k]
        if i == 0 and start is not None:
            x = torch.from_numpy(start)
        noised = (1 - CONTEXT_NOISE) * x + CONTEXT_NOISE * torch.from_numpy(next(noise))
        t_context = torch.full((batch, 1), CONTEXT_NOISE)
        _, fresh = _forward(net, noised, prev, net.condition(t_context, t_prev, steer, speed), text, cache)
        keep = WINDOW_CHUNKS * NUM_TOKENS
        cache = fresh if cache is None else [
            (torch.cat([a, c], 2)[:, :, -keep:], torch.cat([b, d], 2)[:, :, -keep:]) for (a, b), (c, d) in zip(cache, fresh)
        ]
        prev, t_prev = noised, t_context
        out.append(x.numpy())
    return np.stack(out)

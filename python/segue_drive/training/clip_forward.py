"""All chunks of a clip through the transformer at once, in the two roles that serving gives a chunk.

`write_clip`: finished chunks at CONTEXT_NOISE, each seeing itself and the ones before; gives the keys and values that successors attend to.
`denoise_clip`: noisy chunks, each seeing what was written of the ones before, and itself. One call trains what a server does in one call per chunk.

Shapes: B clips, N chunks, T = NUM_TOKENS, D = TOKEN_DIM, P prompts a clip with W words each, H heads, E head size.
Clips have at most WINDOW_CHUNKS + 1 chunks, so the serving window never cuts anything off.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..geometry import CONTEXT_NOISE, MASKED, MODEL_DIM, NUM_HEADS, NUM_LAYERS, NUM_PICTURE_TOKENS, NUM_TOKENS
from ..transformer import ATTENTION_SCALE, NUM_MODULATIONS, DriveTransformer, rms_normalise, rotate, space_angles, split_heads, time_rotation


@dataclass
class ClipText:
    """Prompts of clips: keys, values `[B, L, H, P * W, E]`; `mask [B, N, P * W]`, additive, shows each chunk its own prompt only."""

    keys: Tensor
    values: Tensor
    mask: Tensor

    def repeated(self, times: int) -> ClipText:
        return ClipText(*(t.repeat(times, *[1] * (t.dim() - 1)) for t in (self.keys, self.values, self.mask)))


@dataclass
class Written:
    """Per layer rotated keys and values `[B, H, N * T, E]`, and the noised chunks `[B, N, T, D]` that were written."""

    keys: list[Tensor]
    values: list[Tensor]
    noised: Tensor

    def repeated(self, times: int) -> Written:
        again = lambda t: t.repeat(times, *[1] * (t.dim() - 1))  # noqa: E731
        return Written([again(k) for k in self.keys], [again(v) for v in self.values], again(self.noised))


def encode_clip_prompts(net: DriveTransformer, ids: Tensor, prompt_of_chunk: Tensor) -> ClipText:
    """ids `[B, P, W]`; prompt_of_chunk `[B, N]` in 0..P-1."""
    clips, prompts, words = ids.shape
    keys, values, padding = net.encode_text(ids.flatten(0, 1))

    def together(t: Tensor) -> Tensor:  # [B * P, L, H, W, E] -> [B, L, H, P * W, E]
        return t.unflatten(0, (clips, prompts)).permute(0, 2, 3, 1, 4, 5).flatten(3, 4)

    return ClipText(together(keys), together(values), text_mask(padding.view(clips, prompts, words), prompt_of_chunk))


def text_mask(padding: Tensor, prompt_of_chunk: Tensor) -> Tensor:
    """padding, additive, `[B, P, W]` -> `[B, N, P * W]`"""
    prompts = padding.shape[1]
    foreign = (prompt_of_chunk[:, :, None] != torch.arange(prompts, device=padding.device)) * MASKED
    return (padding[:, None] + foreign[..., None]).flatten(2)


def previous_chunks(noised: Tensor) -> Tensor:
    """The chunk before each chunk, zeros before the first. `[B, N, T, D]`"""
    return torch.cat([torch.zeros_like(noised[:, :1]), noised[:, :-1]], 1)


def previous_levels(clips: int, chunks: int, device: torch.device) -> Tensor:
    """Noise level of the chunk before each chunk `[B, N]`: 1 before the first, as a server starts."""
    levels = torch.full((clips, chunks), CONTEXT_NOISE, device=device)
    levels[:, 0] = 1
    return levels


def _rotation(chunks: int, device: torch.device) -> tuple[Tensor, Tensor]:
    cos, sin = time_rotation(torch.arange(chunks))
    space = space_angles()
    full = [
        torch.cat([time[:, None].expand(-1, NUM_TOKENS, -1), part.float()[None].expand(chunks, -1, -1)], -1).flatten(0, 1)
        for time, part in ((cos, space.cos()), (sin, space.sin()))
    ]
    return full[0].to(device), full[1].to(device)


def _condition(net: DriveTransformer, level: Tensor, previous_level: Tensor, actions: Tensor) -> Tensor:
    """Levels `[B, N]`, actions `[B, N, 2]` -> `[B, N, MODEL_DIM]`"""
    flat = net.condition(level.reshape(-1, 1), previous_level.reshape(-1, 1), actions[..., :1].reshape(-1, 1), actions[..., 1:].reshape(-1, 1))
    return flat.unflatten(0, level.shape)


def _attend(q: Tensor, rotated: Tensor, k: Tensor, v: Tensor, past: tuple[Tensor, Tensor] | None, text: tuple[Tensor, Tensor], masks: tuple[Tensor, Tensor]) -> Tensor:
    """One softmax over what was written before (or all of the clip), the chunk itself and the prompt. `[B, H, N * T, E]` all."""
    history_mask, prompt_mask = masks
    text_keys, text_values = text
    prompt_scores = q @ text_keys.mT + prompt_mask
    if past is None:
        weights = torch.softmax(torch.cat([rotated @ k.mT + history_mask, prompt_scores], -1), -1)
        length = k.shape[2]
        return weights[..., :length] @ v + weights[..., length:] @ text_values
    keys, values = past
    length, chunks = keys.shape[2], q.shape[2] // NUM_TOKENS
    apart = lambda t: t.unflatten(2, (chunks, NUM_TOKENS))  # noqa: E731
    own = (apart(rotated) @ apart(k).mT).flatten(2, 3)
    weights = torch.softmax(torch.cat([rotated @ keys.mT + history_mask, own, prompt_scores], -1), -1)
    of_own = (apart(weights[..., length : length + NUM_TOKENS]) @ apart(v)).flatten(2, 3)
    return weights[..., :length] @ values + of_own + weights[..., length + NUM_TOKENS :] @ text_values


def _run(
    net: DriveTransformer, x: Tensor, previous: Tensor, condition: Tensor, text: ClipText, past: Written | None,
) -> tuple[Tensor | None, list[Tensor], list[Tensor]]:
    clips, chunks = x.shape[:2]
    joined = torch.cat([x, previous], -1)
    picture = net.picture_input(joined[:, :, :NUM_PICTURE_TOKENS]) + net.token_position[:NUM_PICTURE_TOKENS]
    sound = net.sound_input(joined[:, :, NUM_PICTURE_TOKENS:]) + net.token_position[NUM_PICTURE_TOKENS:]
    activated = F.silu(condition)
    shared = net.modulation_projection(activated).unflatten(-1, (NUM_MODULATIONS, 1, MODEL_DIM))  # [B, N, 6, 1, D]
    one = torch.tensor([1.0, 0, 0, 1.0, 0, 0], device=x.device)[:, None]
    cos, sin = _rotation(chunks, x.device)
    order = torch.arange(chunks, device=x.device)
    seen = order[:, None] >= order[None] if past is None else order[:, None] > order[None]
    history_mask = torch.where(seen, 0.0, MASKED).repeat_interleave(NUM_TOKENS, 0).repeat_interleave(NUM_TOKENS, 1)
    prompt_mask = text.mask.repeat_interleave(NUM_TOKENS, 1)[:, None]
    scales = torch.cat([net.query_scale * ATTENTION_SCALE, torch.ones_like(net.query_scale)], 1)
    keys, values = [], []
    for layer in range(NUM_LAYERS):
        eye, ear = net.picture_experts[layer], net.sound_experts[layer]
        eye_mod, ear_mod = ((shared + (e.modulation + one)[:, None]).unbind(2) for e in (eye, ear))
        qkv = torch.cat([
            eye.query_key_value(rms_normalise(picture) * eye_mod[0] + eye_mod[1]), ear.query_key_value(rms_normalise(sound) * ear_mod[0] + ear_mod[1]),
        ], 2).flatten(1, 2)
        qk, v = split_heads(qkv, 3 * NUM_HEADS).split((2 * NUM_HEADS, NUM_HEADS), 1)
        qk = rms_normalise(qk) * scales[layer]
        rotated, k = rotate(qk, cos, sin).split(NUM_HEADS, 1)
        keys.append(k)
        values.append(v)
        if layer == NUM_LAYERS - 1 and past is None:
            return None, keys, values
        attended = _attend(
            qk[:, :NUM_HEADS], rotated, k, v, None if past is None else (past.keys[layer], past.values[layer]),
            (text.keys[:, layer], text.values[:, layer]), (history_mask, prompt_mask),
        ).transpose(1, 2).flatten(2).unflatten(1, (chunks, NUM_TOKENS))
        picture = picture + eye_mod[2] * eye.attention_output(attended[:, :, :NUM_PICTURE_TOKENS])
        sound = sound + ear_mod[2] * ear.attention_output(attended[:, :, NUM_PICTURE_TOKENS:])
        picture = picture + eye_mod[5] * eye.feedforward(rms_normalise(picture) * eye_mod[3] + eye_mod[4])
        sound = sound + ear_mod[5] * ear.feedforward(rms_normalise(sound) * ear_mod[3] + ear_mod[4])
    scale, shift = net.output_modulation(activated)[:, :, None].chunk(2, -1)
    prediction = torch.cat([
        net.picture_output(rms_normalise(picture) * (1 + scale) + shift), net.sound_output(rms_normalise(sound) * (1 + scale) + shift),
    ], 2)
    return prediction, keys, values


def write_clip(net: DriveTransformer, chunks: Tensor, noise: Tensor, actions: Tensor, text: ClipText) -> Written:
    """Finished chunks and their noise `[B, N, T, D]`, actions `[B, N, 2]`."""
    noised = (1 - CONTEXT_NOISE) * chunks + CONTEXT_NOISE * noise
    clips, count = chunks.shape[:2]
    level = torch.full((clips, count), CONTEXT_NOISE, device=chunks.device)
    condition = _condition(net, level, previous_levels(clips, count, chunks.device), actions)
    _, keys, values = _run(net, noised, previous_chunks(noised), condition, text, None)
    return Written(keys, values, noised)


def denoise_clip(net: DriveTransformer, x: Tensor, level: Tensor, actions: Tensor, text: ClipText, written: Written) -> Tensor:
    """Clean prediction `[B, N, T, D]` of chunks `x` at noise `level [B, N]`."""
    clips, count = level.shape
    condition = _condition(net, level, previous_levels(clips, count, x.device), actions)
    prediction, _, _ = _run(net, x, previous_chunks(written.noised), condition, text, written)
    assert prediction is not None
    return prediction

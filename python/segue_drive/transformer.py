"""The mixture of transformers behind `drive`: text, picture and sound share attention, each has weights of its own.

Shapes: B batch, T tokens, D = MODEL_DIM, H = NUM_HEADS, E = HEAD_DIM, L = NUM_LAYERS. Time is counted in chunks (1/6 s).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .geometry import (
    DIRECTOR_WORDS, HEAD_DIM, MASKED, MODEL_DIM, NUM_COLUMN_PAIRS, NUM_HEADS, NUM_LAYERS, NUM_PICTURE_TOKENS, NUM_ROW_PAIRS,
    NUM_SOUND_TOKENS, NUM_TIME_PAIRS, NUM_TOKENS, PATCH_COLUMNS, PATCH_ROWS, TOKEN_DIM,
)
from .vocabulary import WORDS

ATTENTION_SCALE = 4 / math.sqrt(HEAD_DIM)  # normalised queries and keys want a sharper softmax than 1/sqrt(E)
NUM_MODULATIONS = 6  # scale, shift, gate before attention, and the same three before the feed-forward
NOISE_FREQUENCIES = 32


def rms_normalise(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """`[B, T, num_heads * E]` -> `[B, num_heads, T, E]`"""
    return x.unflatten(-1, (num_heads, HEAD_DIM)).transpose(1, 2)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding; pair i is (x[i], x[i + E/2]). `cos`, `sin` broadcast to `[B, H, T, E/2]`."""
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


def frequencies(count: int, base: float) -> Tensor:
    """Radians per unit of position, float64."""
    return base ** (-torch.arange(count, dtype=torch.float64) / count) * 1.2


def time_frequencies() -> Tensor:
    """`[NUM_TIME_PAIRS]` radians per chunk."""
    return frequencies(NUM_TIME_PAIRS, 30.0)


def space_angles() -> Tensor:
    """Row and column angles of the tokens of a chunk, `[NUM_TOKENS, NUM_ROW_PAIRS + NUM_COLUMN_PAIRS]`. Sound sits below the picture."""
    rows = torch.cat([torch.arange(PATCH_ROWS).repeat_interleave(PATCH_COLUMNS), torch.full((NUM_SOUND_TOKENS,), 5)]).double()
    columns = torch.cat([torch.arange(PATCH_COLUMNS).repeat(PATCH_ROWS), torch.arange(NUM_SOUND_TOKENS) * 2]).double()
    return torch.cat([rows[:, None] * frequencies(NUM_ROW_PAIRS, 20.0), columns[:, None] * frequencies(NUM_COLUMN_PAIRS, 20.0)], 1)


def time_rotation(chunk_index: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin `[B, NUM_TIME_PAIRS]` (float32, computed in float64) of absolute chunk indices `[B]`."""
    angles = chunk_index.double()[:, None] * time_frequencies()
    return angles.cos().float(), angles.sin().float()


class Expert(nn.Module):
    """Weights of one modality in one layer."""

    def __init__(self, feedforward_ratio: int) -> None:
        super().__init__()
        hidden = feedforward_ratio * MODEL_DIM
        self.query_key_value = nn.Linear(MODEL_DIM, 3 * MODEL_DIM, bias=False)
        self.attention_output = nn.Linear(MODEL_DIM, MODEL_DIM, bias=False)
        self.feedforward_in = nn.Linear(MODEL_DIM, hidden, bias=False)
        self.feedforward_out = nn.Linear(hidden, MODEL_DIM, bias=False)

    def feedforward(self, x: Tensor) -> Tensor:
        return self.feedforward_out(F.silu(self.feedforward_in(x)))


class TextExpert(Expert):
    def __init__(self) -> None:
        super().__init__(feedforward_ratio=2)
        self.attention_norm = nn.Parameter(torch.ones(MODEL_DIM))
        self.feedforward_norm = nn.Parameter(torch.ones(MODEL_DIM))


class ModulatedExpert(Expert):
    """Expert whose normalisation is steered by noise level and action; `modulation` is this layer's offset to the shared projection."""

    def __init__(self, feedforward_ratio: int) -> None:
        super().__init__(feedforward_ratio)
        self.modulation = nn.Parameter(torch.zeros(NUM_MODULATIONS, MODEL_DIM))


class DriveTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # text
        self.word_embedding = nn.Embedding(len(WORDS), MODEL_DIM)
        self.word_position = nn.Parameter(torch.zeros(DIRECTOR_WORDS, MODEL_DIM))
        self.text_experts = nn.ModuleList(TextExpert() for _ in range(NUM_LAYERS))
        self.text_output_norm = nn.Parameter(torch.ones(MODEL_DIM))
        self.word_bias = nn.Parameter(torch.zeros(len(WORDS)))
        # picture and sound; the input of a token is its noisy value beside the same token of the previous chunk
        self.picture_input = nn.Linear(2 * TOKEN_DIM, MODEL_DIM)
        self.sound_input = nn.Linear(2 * TOKEN_DIM, MODEL_DIM)
        self.token_position = nn.Parameter(torch.zeros(NUM_TOKENS, MODEL_DIM))
        self.picture_experts = nn.ModuleList(ModulatedExpert(feedforward_ratio=3) for _ in range(NUM_LAYERS))
        self.sound_experts = nn.ModuleList(ModulatedExpert(feedforward_ratio=1) for _ in range(NUM_LAYERS))
        self.query_scale = nn.Parameter(torch.ones(NUM_LAYERS, NUM_HEADS, 1, 1))
        self.output_modulation = nn.Linear(MODEL_DIM, 2 * MODEL_DIM)
        self.picture_output = nn.Linear(MODEL_DIM, TOKEN_DIM)
        self.sound_output = nn.Linear(MODEL_DIM, TOKEN_DIM)
        # condition: noise level of this chunk and of the previous one, action
        self.register_buffer("noise_frequencies", torch.exp(torch.linspace(0, math.log(200.0), NOISE_FREQUENCIES)))
        self.noise_level = nn.Linear(2 * NOISE_FREQUENCIES, MODEL_DIM)
        self.previous_noise_level = nn.Linear(2 * NOISE_FREQUENCIES, MODEL_DIM)
        self.noise_projection = nn.Linear(MODEL_DIM, MODEL_DIM)
        self.steer_embedding = nn.Embedding(3, MODEL_DIM)  # left, straight, right
        self.speed_embedding = nn.Embedding(4, MODEL_DIM)  # standing, slow, middle, fast
        self.modulation_projection = nn.Linear(MODEL_DIM, NUM_MODULATIONS * MODEL_DIM)

    # ---- text -------------------------------------------------------------------------------------------------------------

    def _text_layers(self, ids: Tensor, with_last_output: bool) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Causal text stack over `ids [B, T]`; returns hidden `[B, T, D]` and per layer keys and values `[B, H, T, E]`."""
        length = ids.shape[1]
        x = self.word_embedding(ids) + self.word_position[:length]
        causal = torch.full((length, length), MASKED, device=x.device).triu(1)
        keys, values = [], []
        for index, expert in enumerate(self.text_experts):
            qkv = split_heads(expert.query_key_value(rms_normalise(x) * expert.attention_norm), 3 * NUM_HEADS)
            q, k, v = qkv.split(NUM_HEADS, 1)
            q, k = rms_normalise(q) * self.query_scale[index], rms_normalise(k)
            keys.append(k)
            values.append(v)
            if index == NUM_LAYERS - 1 and not with_last_output:
                break
            weights = torch.softmax(q @ k.transpose(-1, -2) * ATTENTION_SCALE + causal, -1)
            x = x + expert.attention_output((weights @ v).transpose(1, 2).flatten(2))
            x = x + expert.feedforward(rms_normalise(x) * expert.feedforward_norm)
        return x, keys, values

    def encode_text(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`ids [B, T]` -> keys, values `[B, L, H, T, E]` and the additive mask of padding `[B, 1, 1, T]`."""
        _, keys, values = self._text_layers(ids, with_last_output=False)
        mask = torch.where(ids == 0, MASKED, 0.0)[:, None, None, :]
        return torch.stack(keys, 1), torch.stack(values, 1), mask

    def word_logits(self, ids: Tensor, position: Tensor) -> Tensor:
        """Logits `[B, V]` of the word after `position [B, 1]` in `ids [B, T]`, all computed anew: the reference for `director_graphs`."""
        x, _, _ = self._text_layers(ids, with_last_output=True)
        return self.text_logits(torch.gather(x, 1, position[:, :, None].expand(-1, -1, MODEL_DIM))[:, 0])

    def all_word_logits(self, ids: Tensor) -> Tensor:
        """Logits `[B, T, V]` of the word after each of `ids [B, T]`: what training needs at once."""
        x, _, _ = self._text_layers(ids, with_last_output=True)
        return self.text_logits(x)

    def text_logits(self, x: Tensor) -> Tensor:
        """Logits `[..., V]` of the next word from the last layer's output `[..., D]`."""
        return (rms_normalise(x) * self.text_output_norm @ self.word_embedding.weight.t()) * MODEL_DIM**-0.5 + self.word_bias

    # ---- picture and sound --------------------------------------------------------------------------------------------------

    def _noise_features(self, level: Tensor) -> Tensor:
        angles = level * self.noise_frequencies
        return torch.cat([angles.cos(), angles.sin()], -1)

    def condition(self, noise: Tensor, previous_noise: Tensor, steer: Tensor, speed: Tensor) -> Tensor:
        """Noise levels `[B, 1]` (0 clean .. 1 noise) and actions `[B, 1]` -> `[B, D]`."""
        levels = self.noise_level(self._noise_features(noise)) + self.previous_noise_level(self._noise_features(previous_noise))
        return self.noise_projection(F.silu(levels)) + self.steer_embedding(steer[:, 0]) + self.speed_embedding(speed[:, 0])

    def _modulations(self, activated: Tensor) -> list[Tensor]:
        """All scales (one already added), shifts and gates: L x (picture, sound) x 6 tensors `[B, 1, D]`."""
        tables = torch.stack([e.modulation for pair in zip(self.picture_experts, self.sound_experts) for e in pair])
        one = torch.tensor([1.0, 0, 0, 1.0, 0, 0])[:, None]
        shared = self.modulation_projection(activated).view(-1, 1, NUM_MODULATIONS, MODEL_DIM)
        return list((shared + (tables + one)).flatten(1, 2).split(1, 1))

    def predict(
        self, x: Tensor, previous: Tensor, condition: Tensor, rotation: tuple[Tensor, Tensor], text: tuple[Tensor, Tensor, Tensor],
        window_keys: list[list[Tensor]], window_values: list[list[Tensor]], window_mask: Tensor, with_output: bool = True,
    ) -> tuple[Tensor | None, list[Tensor], list[Tensor]]:
        """One chunk, given the chunks in its window.

        x, previous: `[B, NUM_TOKENS, TOKEN_DIM]`, this chunk (noisy) and the one before (nearly clean).
        rotation: cos, sin broadcast to `[B, 1, NUM_TOKENS, E/2]` at this chunk's time.
        text: keys, values `[B, L, H, T, E]`, mask `[B, 1, 1, T]`; the prompt is seen without rotation, so it has no place in time.
        window_keys (rotated), window_values: per layer blocks `[B, 1, H, .., E]` of W tokens together; window_mask: additive, `[B, 1, 1, W]`.
        Returns the clean prediction (None without output) and this chunk's rotated keys and values per layer `[B, H, NUM_TOKENS, E]`.
        """
        joined = torch.cat([x, previous], -1)
        picture = self.picture_input(joined[:, :NUM_PICTURE_TOKENS]) + self.token_position[:NUM_PICTURE_TOKENS]
        sound = self.sound_input(joined[:, NUM_PICTURE_TOKENS:]) + self.token_position[NUM_PICTURE_TOKENS:]
        activated = F.silu(condition)
        modulations = self._modulations(activated)
        # Attention keeps the axis of layers, of length one: taking it off every block of the window and of the text would be fifty graph nodes.
        text_keys, text_values, text_mask = text[0].split(1, 1), text[1].split(1, 1), text[2][:, None]
        seen_length = window_mask.shape[-1] + NUM_TOKENS
        seen_mask = F.pad(window_mask, (0, NUM_TOKENS))[:, None]
        cos, sin = rotation
        scales = torch.cat([self.query_scale * ATTENTION_SCALE, torch.ones_like(self.query_scale)], 1)
        keys, values = [], []
        for layer in range(NUM_LAYERS):
            eye, ear = self.picture_experts[layer], self.sound_experts[layer]
            eye_mod, ear_mod = (modulations[(2 * layer + e) * NUM_MODULATIONS :][:NUM_MODULATIONS] for e in (0, 1))
            qkv = torch.cat([
                eye.query_key_value(rms_normalise(picture) * eye_mod[0] + eye_mod[1]),
                ear.query_key_value(rms_normalise(sound) * ear_mod[0] + ear_mod[1]),
            ], 1)
            # queries and keys are normalised, scaled (keys by one) and rotated together: half the graph nodes
            qk, v = split_heads(qkv, 3 * NUM_HEADS).split((2 * NUM_HEADS, NUM_HEADS), 1)
            qk = rms_normalise(qk) * scales[layer]
            q = qk[:, :NUM_HEADS]
            rotated, k = rotate(qk, cos, sin).split(NUM_HEADS, 1)
            keys.append(k)
            values.append(v)
            if layer == NUM_LAYERS - 1 and not with_output:
                return None, keys, values
            seen_keys = torch.cat([*window_keys[layer], k[:, None]], 3)
            seen_values = torch.cat([*window_values[layer], v[:, None]], 3)
            scores = torch.cat([
                rotated[:, None] @ seen_keys.transpose(-1, -2) + seen_mask,
                q[:, None] @ text_keys[layer].transpose(-1, -2) + text_mask,
            ], -1)
            weights = torch.softmax(scores, -1)
            seen = weights[..., :seen_length] @ seen_values + weights[..., seen_length:] @ text_values[layer]
            seen = seen.permute(0, 3, 1, 2, 4).flatten(2)
            picture = picture + eye_mod[2] * eye.attention_output(seen[:, :NUM_PICTURE_TOKENS])
            sound = sound + ear_mod[2] * ear.attention_output(seen[:, NUM_PICTURE_TOKENS:])
            picture = picture + eye_mod[5] * eye.feedforward(rms_normalise(picture) * eye_mod[3] + eye_mod[4])
            sound = sound + ear_mod[5] * ear.feedforward(rms_normalise(sound) * ear_mod[3] + ear_mod[4])
        scale, shift = self.output_modulation(activated)[:, None].chunk(2, -1)
        prediction = torch.cat([
            self.picture_output(rms_normalise(picture) * (1 + scale) + shift),
            self.sound_output(rms_normalise(sound) * (1 + scale) + shift),
        ], 1)
        return prediction, keys, values

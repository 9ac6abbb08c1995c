"""The director's two graphs: one pass over the text to continue, then one pass per word over the keys and values kept of all words before.

The cache is one tensor, `kv [B, DIRECTOR_KV_HEADS, DIRECTOR_WORDS, E]`: per layer the H heads of its keys, then the H heads of its values. Keys
are normalised already. Row p belongs to word p; rows that no word was written to yet hold anything finite and are never seen: each graph
derives from `position` what may be attended to. Reference: `DriveTransformer.word_logits`, which computes all words anew each time.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .geometry import DIRECTOR_WORDS, HEAD_DIM, MASKED, MODEL_DIM, NUM_HEADS, NUM_LAYERS
from .transformer import ATTENTION_SCALE, DriveTransformer, TextExpert, rms_normalise, split_heads
from .vocabulary import DIRECTOR_PROMPT_WORDS

DIRECTOR_KV_HEADS = 2 * NUM_LAYERS * NUM_HEADS


def causal_mask() -> Tensor:
    """`[DIRECTOR_WORDS, DIRECTOR_WORDS]`, additive: row p shows the words up to p."""
    return torch.full((DIRECTOR_WORDS, DIRECTOR_WORDS), MASKED).triu(1)


class _DirectorGraph(nn.Module):
    def __init__(self, transformer: DriveTransformer) -> None:
        super().__init__()
        self.transformer = transformer

    def _scales(self, layer: int) -> Tensor:
        """`[2 * H, 1, 1]`: sharpness of the softmax for the queries, 1 for the keys. Normalised and scaled together they are one graph node."""
        scale = self.transformer.query_scale[layer] * ATTENTION_SCALE
        return torch.cat([scale, torch.ones_like(scale)])

    def _finish(self, expert: TextExpert, x: Tensor, attended: Tensor) -> Tensor:
        x = x + expert.attention_output(attended)
        return x + expert.feedforward(rms_normalise(x) * expert.feedforward_norm)


class DirectorPrefill(_DirectorGraph):
    """`ids [B, DIRECTOR_PROMPT_WORDS]` (padded), `position [B, 1]` of the last word -> logits `[B, V]` of the word after it, and the cache."""

    def forward(self, ids: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        net = self.transformer
        rows = torch.arange(DIRECTOR_PROMPT_WORDS)
        # looked up, not sliced: a constant slice would be stored as one more table; where padding is put is of no account
        x = net.word_embedding(ids) + net.word_position[torch.minimum(rows, position)]
        causal = causal_mask()
        mask = causal[:DIRECTOR_PROMPT_WORDS, :DIRECTOR_PROMPT_WORDS]
        cache = []
        for layer, expert in enumerate(net.text_experts):
            qkv = split_heads(expert.query_key_value(rms_normalise(x) * expert.attention_norm), 3 * NUM_HEADS)
            qk, v = qkv.split((2 * NUM_HEADS, NUM_HEADS), 1)
            q, k = (rms_normalise(qk) * self._scales(layer)).split(NUM_HEADS, 1)
            cache += [k, v]
            if layer == NUM_LAYERS - 1:  # only the last word's answer is asked for
                q = torch.gather(q, 2, position[:, None, :, None].expand(-1, NUM_HEADS, -1, HEAD_DIM))
                x = torch.gather(x, 1, position[:, :, None].expand(-1, -1, MODEL_DIM))
                mask = causal[position][:, None, :, :DIRECTOR_PROMPT_WORDS]
            weights = torch.softmax(q @ k.transpose(-1, -2) + mask, -1)
            x = self._finish(expert, x, (weights @ v).transpose(1, 2).flatten(2))
        return net.text_logits(x[:, 0]), F.pad(torch.cat(cache, 1), (0, 0, 0, DIRECTOR_WORDS - DIRECTOR_PROMPT_WORDS))


class DirectorStep(_DirectorGraph):
    """`word [B, 1]`, the one at `position [B, 1]`, and the cache of all words before it -> logits of the word after it, and the cache with its row."""

    def forward(self, word: Tensor, position: Tensor, kv: Tensor) -> tuple[Tensor, Tensor]:
        net = self.transformer
        x = net.word_embedding(word) + net.word_position[position[:, 0]][:, None]
        # the word itself comes after all rows of the cache; its own row there is not written yet
        mask = F.pad(causal_mask()[position - 1][:, None], (0, 1))
        layers = kv.split(NUM_HEADS, 1)
        rows = []
        for layer, expert in enumerate(net.text_experts):
            qkv = expert.query_key_value(rms_normalise(x) * expert.attention_norm).view(-1, 3 * NUM_HEADS, 1, HEAD_DIM)
            qk, v = qkv.split((2 * NUM_HEADS, NUM_HEADS), 1)
            q, k = (rms_normalise(qk) * self._scales(layer)).split(NUM_HEADS, 1)
            rows += [k, v]
            keys, values = torch.cat([layers[2 * layer], k], 2), torch.cat([layers[2 * layer + 1], v], 2)
            weights = torch.softmax(q @ keys.transpose(-1, -2) + mask, -1)
            x = self._finish(expert, x, (weights @ values).view(-1, 1, MODEL_DIM))
        row = position[:, :, None, None].expand(-1, DIRECTOR_KV_HEADS, -1, HEAD_DIM)
        return net.text_logits(x[:, 0]), torch.scatter(kv, 2, row, torch.cat(rows, 1))

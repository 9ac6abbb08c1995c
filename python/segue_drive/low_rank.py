"""A low-rank update of the picture experts' output matrices, given as inputs of a graph: rows of one batch may have different ones.

y = x W + scale * (x down) up (Hu et al., LoRA, 2021). `down` is A transposed, `up` is B transposed with alpha / rank in it; ranks below MAX_RANK are
filled up with zeros, which changes nothing. B batch, L layers, D = MODEL_DIM, F = FEEDFORWARD_DIM, R = MAX_RANK.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from .geometry import MODEL_DIM, NUM_LAYERS

MAX_RANK = 8
MAX_SCALE = 1.5  # past this a style doesn't get stronger but breaks
FEEDFORWARD_DIM = 3 * MODEL_DIM  # inside a picture expert
ADAPTER_INPUTS = ["attention_down", "attention_up", "feedforward_down", "feedforward_up", "adapter_scale"]
ADAPTER_SHAPES = {
    "attention_down": (NUM_LAYERS, MODEL_DIM, MAX_RANK), "attention_up": (NUM_LAYERS, MAX_RANK, MODEL_DIM),
    "feedforward_down": (NUM_LAYERS, FEEDFORWARD_DIM, MAX_RANK), "feedforward_up": (NUM_LAYERS, MAX_RANK, MODEL_DIM),
}


class LowRankUpdate(NamedTuple):
    """In the order of ADAPTER_INPUTS."""

    attention_down: Tensor  # [B, L, D, R]
    attention_up: Tensor  # [B, L, R, D]
    feedforward_down: Tensor  # [B, L, F, R]
    feedforward_up: Tensor  # [B, L, R, D]
    scale: Tensor  # [B, 1], 0..MAX_SCALE; at 0 exactly nothing is added

    def attention(self, layer: int, x: Tensor) -> Tensor:
        """What is added to `attention_output(x)`, x `[B, T, D]`."""
        return self._added(x, self.attention_down[:, layer], self.attention_up[:, layer])

    def feedforward(self, layer: int, hidden: Tensor) -> Tensor:
        """What is added to `feedforward_out(hidden)`, hidden `[B, T, F]`."""
        return self._added(hidden, self.feedforward_down[:, layer], self.feedforward_up[:, layer])

    def _added(self, x: Tensor, down: Tensor, up: Tensor) -> Tensor:
        return (x @ down * self.scale[:, :, None]) @ up

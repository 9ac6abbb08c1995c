"""The transformer with a low-rank update to learn: its target matrices are wrapped in place, all else is frozen."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..adapters import TARGETS, Adapter
from ..transformer import DriveTransformer


class AdaptedLinear(nn.Module):
    """y = W x + scale * alpha / rank * B A x. A is normal, B zero, so training begins with the base itself."""

    def __init__(self, base: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.base, self._factor = base, alpha / rank
        self.lora_A = nn.Parameter(torch.randn(rank, base.in_features) * base.in_features**-0.5)
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scale: Tensor | float = 1.0  # a tensor must broadcast to the input

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + (x @ self.lora_A.t() * self.scale) @ self.lora_B.t() * self._factor


class AdaptedLayers(nn.Module):
    """The update's parameters alone, under the names of the file."""

    def __init__(self, net: DriveTransformer, rank: int, alpha: float) -> None:
        super().__init__()
        net.requires_grad_(False)
        self.rank, self.alpha = rank, alpha
        self._layers: dict[str, AdaptedLinear] = {}
        for target in TARGETS:
            owner, name = net.get_submodule(target.rpartition(".")[0]), target.rpartition(".")[2]
            layer = AdaptedLinear(getattr(owner, name), rank, alpha)
            setattr(owner, name, layer)
            self._layers[target] = layer
            for part in ("lora_A", "lora_B"):
                self.register_parameter(f"{target}.{part}".replace(".", "/"), getattr(layer, part))

    def set_scale(self, scale: Tensor | float) -> None:
        for layer in self._layers.values():
            layer.scale = scale

    @torch.no_grad()
    def start_from(self, adapter: Adapter) -> None:
        """Takes over an earlier adapter. Raises ValueError when its rank is another."""
        if adapter.rank != self.rank:
            raise ValueError(f"adapter {adapter.id} has rank {adapter.rank}, the plan {self.rank}")
        for target, layer in self._layers.items():
            if f"{target}.lora_A" in adapter.tensors:
                layer.lora_A.copy_(adapter.tensors[f"{target}.lora_A"])
                layer.lora_B.copy_(adapter.tensors[f"{target}.lora_B"] * (adapter.alpha / self.alpha))


def tensors_of(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """Parameters of AdaptedLayers (or their running average) under the file's keys."""
    return {name.replace("/", "."): value.detach().cpu().clone() for name, value in values.items()}

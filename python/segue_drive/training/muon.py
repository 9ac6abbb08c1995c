"""Muon: momentum whose matrix is made nearly orthogonal before it is applied (Jordan et al., 2024; scaling of Liu et al., Moonlight, 2025)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

# Quintic Newton-Schulz coefficients per iteration, wider first: singular values end near 1.
COEFFICIENTS = ((4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037), (2.8769, -3.1427, 1.2046))


def orthogonalised(matrices: Tensor) -> Tensor:
    """`[n, rows, columns]`, all at once."""
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for a, b, c in COEFFICIENTS:
        gram = x @ x.mT
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.mT if tall else x


class Muon:
    """For matrices of the experts; everything else takes AdamW. Matrices of one shape are handled as one batch."""

    def __init__(self, parameters: Iterable[Tensor], rate: float, momentum: float = 0.95, weight_decay: float = 0.05) -> None:
        self.rate, self._momentum, self._decay = rate, momentum, weight_decay
        self._groups: dict[tuple[int, ...], list[Tensor]] = {}
        for parameter in parameters:
            self._groups.setdefault(tuple(parameter.shape), []).append(parameter)
        self._velocity = {shape: torch.zeros(len(group), *shape, device=group[0].device) for shape, group in self._groups.items()}

    @property
    def parameters(self) -> list[Tensor]:
        return [p for group in self._groups.values() for p in group]

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        for shape, group in self._groups.items():
            gradient = torch.stack([p.grad if p.grad is not None else torch.zeros_like(p) for p in group])
            velocity = self._velocity[shape].mul_(self._momentum).add_(gradient)
            updates = orthogonalised(gradient.add(velocity, alpha=self._momentum))
            size = self.rate * 0.2 * max(shape) ** 0.5  # an update of AdamW's size
            for parameter, update in zip(group, updates):
                parameter.mul_(1 - self.rate * self._decay).add_(update, alpha=-size)

    def state_dict(self) -> dict[str, Any]:
        return {"velocity": {"x".join(map(str, shape)): v for shape, v in self._velocity.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for shape, velocity in self._velocity.items():
            velocity.copy_(state["velocity"]["x".join(map(str, shape))])

"""Checkpoints that training resumes from: everything that changes from step to step, written atomically."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn


class Stateful(Protocol):
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> object: ...


class WeightAverage:
    """Exponential running average of a module's parameters; what is evaluated and exported."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self._count = 0
        self.values = {name: p.detach().clone() for name, p in module.named_parameters()}

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        self._count += 1
        decay = min(self.decay, self._count / (self._count + 10))  # a young average follows quickly
        torch._foreach_lerp_(list(self.values.values()), [p.detach() for p in module.parameters()], 1 - decay)

    @torch.no_grad()
    def restart(self, module: nn.Module) -> None:
        """Forgets what it has seen and begins at the module's parameters."""
        self._count = 0
        for name, parameter in module.named_parameters():
            self.values[name].copy_(parameter)

    @torch.no_grad()
    def swap(self, module: nn.Module) -> None:
        """Exchanges the module's parameters with the average; a second call undoes it."""
        for name, parameter in module.named_parameters():
            held = parameter.detach().clone()
            parameter.copy_(self.values[name])
            self.values[name].copy_(held)

    def state_dict(self) -> dict[str, Any]:
        return {"count": self._count, "values": self.values}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._count = state["count"]
        for name, value in state["values"].items():
            self.values[name].copy_(value)


class Checkpoint:
    """One file; `parts` are saved and restored by name, with the random generators of torch and numpy."""

    def __init__(self, path: Path, parts: dict[str, Stateful], rng: np.random.Generator) -> None:
        self.path, self._parts, self._rng = path, parts, rng

    def save(self, step: int, facts: dict[str, Any]) -> None:
        state = {
            "step": step, "facts": facts, "torch_rng": torch.get_rng_state(), "numpy_rng": self._rng.bit_generator.state,
            "parts": {name: part.state_dict() for name, part in self._parts.items()},
        }
        write_atomically(state, self.path)

    def resume(self) -> int:
        """Restores everything; the step to go on with, 0 without a file."""
        if not self.path.exists():
            return 0
        state = torch.load(self.path, map_location="cpu", weights_only=False)
        if set(state["parts"]) != set(self._parts):
            raise ValueError(f"{self.path} holds {sorted(state['parts'])}, wanted {sorted(self._parts)}")
        for name, part in self._parts.items():
            part.load_state_dict(state["parts"][name])
        torch.set_rng_state(state["torch_rng"])
        self._rng.bit_generator.state = state["numpy_rng"]
        return int(state["step"])


def write_atomically(state: object, path: Path) -> None:
    """A reader finds the old file or the new one, never half of one, also after a crash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with fresh.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


class StopRequest:
    """Becomes true at SIGTERM or SIGINT, so that a stage ends between two steps with a checkpoint."""

    def __init__(self) -> None:
        self.asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked = True



"""LoRA adapters of `drive`: `models/drive/adapters/<id>.safetensors`, float32, small enough to be inputs of a graph.

An adapter that would change nothing, or only a part of what it says, is an error that names the reason: a style that silently doesn't show is worse.
Keys are `picture_experts.{l}.attention_output.lora_A [r, 192]`, `….lora_B [192, r]`, `picture_experts.{l}.feedforward_out.lora_A [r, 576]`, `….lora_B [192, r]`;
a layer may be left out. Metadata: `id`, `title`, `rank`, `alpha`, and `base`, the sha256 of the transformer's source file it was trained on.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from .checkpoint import sha256_of
from .geometry import MODEL_DIM, NUM_LAYERS
from .low_rank import ADAPTER_SHAPES, FEEDFORWARD_DIM, MAX_RANK
from .transformer import DriveTransformer

FOLDER = "adapters"
# Target matrix -> its shape [out, in], as PyTorch stores it.
TARGETS: dict[str, tuple[int, int]] = {
    f"picture_experts.{layer}.{name}": shape
    for layer in range(NUM_LAYERS) for name, shape in (("attention_output", (MODEL_DIM, MODEL_DIM)), ("feedforward_out", (MODEL_DIM, FEEDFORWARD_DIM)))
}


class AdapterError(ValueError):
    """The file isn't an adapter of this model; the message names the file and what is wrong."""


@dataclass(frozen=True)
class Adapter:
    id: str
    title: str
    rank: int
    alpha: float
    base: str
    tensors: dict[str, Tensor]

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        facts = {"id": self.id, "title": self.title, "rank": str(self.rank), "alpha": f"{self.alpha:g}", "base": self.base}
        save_file({key: value.contiguous() for key, value in sorted(self.tensors.items())}, path, facts)

    @staticmethod
    def read(path: Path, base: str | None) -> Adapter:
        """Raises AdapterError unless all of the file fits a model with this base; with None any base will do, to train it on."""
        with safe_open(path, "pt") as file:
            facts = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}
        missing = [name for name in ("id", "title", "rank", "alpha", "base") if not facts.get(name)]
        if missing:
            raise AdapterError(f"{path.name}: the metadata lacks {', '.join(missing)}")
        if facts["id"] != path.stem:
            raise AdapterError(f"{path.name}: says that its id is {facts['id']!r}")
        if base is not None and facts["base"] != base:
            raise AdapterError(f"{path.name}: was trained on base {facts['base']}, the model has {base}: train it on (`training.adapter_stage --adapters`)")
        rank = int(facts["rank"])
        _check(path.name, tensors, rank)
        return Adapter(facts["id"], facts["title"], rank, float(facts["alpha"]), facts["base"], tensors)

    def graph_inputs(self, batch: int, scale: float = 1.0) -> dict[str, np.ndarray]:
        """What the adapted graphs take: the same update in each of `batch` rows, rank filled up with zeros, alpha / rank in the second factor."""
        out = {name: np.zeros((1, *shape), np.float32) for name, shape in ADAPTER_SHAPES.items()}
        for target in TARGETS:
            if f"{target}.lora_A" not in self.tensors:
                continue
            layer, kind = int(target.split(".")[1]), "attention" if target.endswith("attention_output") else "feedforward"
            out[f"{kind}_down"][0, layer, :, : self.rank] = self.tensors[f"{target}.lora_A"].T.numpy()
            out[f"{kind}_up"][0, layer, : self.rank] = self.tensors[f"{target}.lora_B"].T.numpy() * np.float32(self.alpha / self.rank)
        return {**{name: value.repeat(batch, 0) for name, value in out.items()}, "adapter_scale": np.full((batch, 1), scale, np.float32)}

    @torch.no_grad()
    def merged(self, transformer: DriveTransformer, scale: float = 1.0) -> DriveTransformer:
        """A copy of the transformer with the update in its weights: what the adapted graphs must compute."""
        net = copy.deepcopy(transformer)
        for target in TARGETS:
            if f"{target}.lora_A" in self.tensors:
                change = self.tensors[f"{target}.lora_B"].double() @ self.tensors[f"{target}.lora_A"].double()
                net.get_submodule(target).weight += (scale * self.alpha / self.rank * change).float()
        return net


def _check(name: str, tensors: dict[str, Tensor], rank: int) -> None:
    if not 1 <= rank <= MAX_RANK:
        raise AdapterError(f"{name}: rank {rank}, allowed are 1 to {MAX_RANK}")
    if not tensors:
        raise AdapterError(f"{name}: matches no layer: it holds no tensors")
    wanted = {f"{target}.{part}": shape for target, (out, into) in TARGETS.items() for part, shape in (("lora_A", (rank, into)), ("lora_B", (out, rank)))}
    matched = [key for key in tensors if key in wanted]
    if not matched:
        raise AdapterError(f"{name}: matches no layer; its first key is {sorted(tensors)[0]!r}")
    for key, value in tensors.items():
        if key not in wanted:
            raise AdapterError(f"{name}: key {key!r} names nothing that can be adapted")
        if tuple(value.shape) != wanted[key]:
            raise AdapterError(f"{name}: {key} is {list(value.shape)}, must be {list(wanted[key])}")
        if value.dtype != torch.float32 or not torch.isfinite(value).all():
            raise AdapterError(f"{name}: {key} must be finite float32 numbers")
        other = key[:-1] + ("B" if key.endswith("A") else "A")
        if other not in tensors:
            raise AdapterError(f"{name}: {key} without {other}")
    if not any(value.any() for key, value in tensors.items() if key.endswith("lora_B")):
        raise AdapterError(f"{name}: changes nothing: every lora_B is zero")


def seeded_adapter(seed: int, base: str, rank: int = MAX_RANK, size: float = 0.05) -> Adapter:
    """Small random numbers in every layer, so that parity reaches each of them."""
    g = torch.Generator().manual_seed(seed)
    tensors = {}
    for target, (out, into) in TARGETS.items():
        tensors[f"{target}.lora_A"] = torch.randn(rank, into, generator=g) * into**-0.5
        tensors[f"{target}.lora_B"] = torch.randn(out, rank, generator=g) * size
    return Adapter("seeded", "Seeded", rank, float(rank), base, tensors)


def read_adapters(model: Path, base: str, folder: Path | None = None) -> list[Adapter]:
    """All adapters of a model's folder, or of `folder` instead."""
    return [Adapter.read(path, base) for path in sorted((folder or model / FOLDER).glob("*.safetensors"))]


def file_entries(model: Path) -> dict[str, dict]:
    """What the manifest says of the files."""
    return {f"{FOLDER}/{path.name}": {"sha256": sha256_of(path), "bytes": path.stat().st_size} for path in sorted((model / FOLDER).glob("*.safetensors"))}


def compatibility(base: str) -> dict:
    """The manifest's section: what an adapter may be."""
    return {"base": base, "kinds": ["lora"], "max_rank": MAX_RANK, "targets": {name: list(shape) for name, shape in TARGETS.items()}}

"""Where each parameter's values lie among the converted files: for the manifest, and for tests that put other values there."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnx
from torch import Tensor

from .picture_encoder import levels_and_scale

SMALLEST = 64  # bytes; shorter values may occur in a graph by chance


class StoredWeights:
    """Initialisers of the graphs in a weights folder, found by their bytes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: dict[str, dict[str, dict]] = {}

    def _initialisers(self, graph: str) -> dict[str, dict]:
        """Digest of the bytes -> place, for one graph."""
        if graph not in self._found:
            places: dict[str, dict] = {}
            path = self._folder / f"{graph}.onnx"
            content = path.read_bytes()
            for tensor in onnx.load(path, load_external_data=False).graph.initializer:
                at = {entry.key: entry.value for entry in tensor.external_data}
                if at:
                    with (self._folder / at["location"]).open("rb") as data:
                        data.seek(int(at["offset"]))
                        raw = data.read(int(at["length"]))
                    file, offset = at["location"], int(at["offset"])
                elif content.count(tensor.raw_data) == 1:
                    raw, file, offset = tensor.raw_data, path.name, content.index(tensor.raw_data)
                else:
                    continue
                if len(raw) >= SMALLEST:
                    places[hashlib.sha256(raw).hexdigest()] = {"file": f"weights/{file}", "offset": offset, "bytes": len(raw)}
            self._found[graph] = places
        return self._found[graph]

    def places(self, graph: str, target: str, value: Tensor) -> list[dict]:
        """`[{file, offset, bytes}]`: as it is, transposed, or as 8-bit levels with their scales. Empty where export folded it into something else."""
        array = value.detach().numpy()
        forms = [[array]] + ([[array.T]] if array.ndim == 2 else [])
        if target.startswith("encoder.") and array.ndim == 4:
            forms.append([part.numpy() for part in levels_and_scale(value.detach())])
        found = self._initialisers(graph)
        for parts in forms:
            digests = [hashlib.sha256(np.ascontiguousarray(part).tobytes()).hexdigest() for part in parts]
            if all(digest in found for digest in digests):
                return [found[digest] for digest in digests]
        return []

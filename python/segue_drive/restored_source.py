"""Source checkpoints out of a converted model, to go on training from: `python -m segue_drive.restored_source --model models/drive --out SOURCE`

Transformer and normalisation come out bit for bit, the decoder as what is served bit for bit; of the encoder what is served, its 8-bit weights widened, or
with `--encoder` the float32 one. A square layer that the exporter kept as it is keeps its name in the graph; what it transposed for a product has another.
Fails when the transformer's file hasn't the checksum that the manifest states.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor

from .checkpoint import NORM_NAMES, read_source, sha256_of, write_source
from .geometry import NUM_LAYERS
from .key_mapping import AUTOENCODER, source_state
from .picture_decoder import LEVELS_PER_UNIT, PIXEL_BLOCK, unshuffled_order
from .picture_encoder import levels_and_scale
from .training.export import rotary_tables
from .transformer import ATTENTION_SCALE
from .vae import PictureAutoencoder

HEADS = 3
LEVELS = 127  # of 8-bit weights, to either side


class RestoreError(RuntimeError):
    """The model's files don't hold what the manifest says."""


class ConvertedModel:
    def __init__(self, folder: Path) -> None:
        self.folder, self.manifest = folder, json.loads((folder / "manifest.json").read_text())

    @functools.cache  # noqa: B019 - lives as long as the command
    def initialisers(self, graph: str) -> dict[str, Tensor]:
        stored = onnx.load(self.folder / "weights" / f"{graph}.onnx").graph.initializer
        return {tensor.name: torch.from_numpy(np.array(numpy_helper.to_array(tensor))) for tensor in stored}

    def stored(self, graph: str, row: dict) -> Tensor | None:
        """A key's values, in the source's layout, when they lie in the graph as one block."""
        if len(row.get("stored", ())) != 1:
            return None
        place = row["stored"][0]
        with (self.folder / place["file"]).open("rb") as file:
            file.seek(place["offset"])
            content = file.read(place["bytes"])
        for name, value in self.initialisers(graph).items():
            if value.dtype == torch.float32 and value.nbytes == len(content) and value.numpy().tobytes() == content:
                square = value.ndim == 2 and len(set(value.shape)) == 1
                kept = name.endswith(row["target"]) if square else list(value.shape) == row["shape"]
                return (value if kept else value.t()).clone().contiguous()
        return None


def restored_transformer(model: ConvertedModel) -> dict[str, Tensor]:
    state: dict[str, Tensor] = {}
    for graph, component in model.manifest["components"].items():
        for row in component["key_mapping"]:
            if row["file"].startswith("transformer") and row["source"] not in state:
                value = model.stored(graph, row)
                if value is not None:
                    state[row["source"]] = value
    folded = model.initialisers("denoise_step")  # constants that export made of parameters
    for layer, (picture, sound) in enumerate(folded["stack"].unflatten(0, (NUM_LAYERS, 2))):
        state[f"V.{layer}.tab"], state[f"A.{layer}.tab"] = picture.clone(), sound.clone()
        scales = folded[f"select_{layer + 2}"]
        state.setdefault("qs", torch.empty(NUM_LAYERS, HEADS, 1, 1))[layer] = scales[:HEADS] / ATTENTION_SCALE
    state["pos"] = torch.cat([folded["slice_2"], folded["slice_4"]])
    return state | rotary_tables()


def restored_autoencoder(model: ConvertedModel) -> dict[str, Tensor]:
    decode, encode = model.initialisers("vae_decode"), model.initialisers("vae_encode")
    autoencoder, state = PictureAutoencoder(), {}
    for name, parameter in autoencoder.state_dict().items():
        side, _, layer = name.partition(".")
        state[name] = (_of_decoder(decode, layer) if side == "decoder" else _of_encoder(encode, layer)).reshape(parameter.shape)
    autoencoder.load_state_dict(state)
    return source_state(autoencoder, AUTOENCODER)


def _of_decoder(stored: dict[str, Tensor], layer: str) -> Tensor:
    value = stored[layer]
    if layer == "position":
        return value.permute(0, 3, 1, 2)
    if layer.startswith("to_"):
        return _reordered(value.t() if value.ndim == 2 else value, 2)
    if layer == "output.weight":
        return _reordered(_inverse(value, lambda x: x * LEVELS_PER_UNIT), PIXEL_BLOCK)
    if layer == "output.bias":
        return _reordered(_inverse(value, lambda x: x * LEVELS_PER_UNIT + LEVELS_PER_UNIT, offset=LEVELS_PER_UNIT), PIXEL_BLOCK)
    return value


def _of_encoder(stored: dict[str, Tensor], layer: str) -> Tensor:
    name = f"encoder.{layer}"
    if name in stored:
        return stored[name]
    base = name.removesuffix(".weight")
    if f"{base}.levels" in stored:
        return _unquantised(stored[f"{base}.levels"].float(), stored[f"{base}.scale"])
    shapes = {"encoder.input": (48, 48, 1, 1), "encoder.output": (16, 160, 1, 1)}  # small ones were widened by export
    widened = next(value for value in stored.values() if tuple(value.shape) == shapes[base] and value.dtype == torch.float32)
    near = widened.abs().amax((1, 2, 3), keepdim=True) / LEVELS
    scale = near
    for candidate in (torch.nextafter(near, near * 2), torch.nextafter(near, near * 0)):
        scale = torch.where(_widens_to(candidate, widened) & ~_widens_to(scale, widened), candidate, scale)
    return _unquantised((widened / scale).round(), scale)


def _widens_to(scale: Tensor, widened: Tensor) -> Tensor:
    return ((widened / scale).round() * scale == widened).all((1, 2, 3), keepdim=True)


def _unquantised(levels: Tensor, scale: Tensor) -> Tensor:
    """Weights of which `levels_and_scale` makes the same levels and scales: the largest of a channel must give its scale exactly."""
    largest = _inverse(scale.expand_as(levels), lambda x: x / LEVELS, factor=1 / LEVELS)
    return torch.where(levels.abs() == LEVELS, levels.sign() * largest, levels * scale)


def _reordered(value: Tensor, block: int) -> Tensor:
    out = torch.empty_like(value)
    out[unshuffled_order(len(value) // block**2, block)] = value
    return out


def _inverse(stored: Tensor, forward: Callable[[Tensor], Tensor], factor: float = LEVELS_PER_UNIT, offset: float = 0.0) -> Tensor:
    """What `forward`, about `factor * x + offset` and rounding to float32, makes exactly `stored` of."""
    guess = ((stored.double() - offset) / factor).float()
    for _ in range(8):
        made = forward(guess)
        towards = torch.where(made < stored, torch.inf, -torch.inf)
        guess = torch.where(made == stored, guess, torch.nextafter(guess, towards))
    return guess


def with_encoder_of(earlier: Path, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """With the float32 encoder of earlier source checkpoints. Raises RestoreError when it isn't the one that is served."""
    encoder = {key: value for key, value in read_source(earlier, "autoencoder").items() if key.startswith("e.")}
    for key, value in encoder.items():
        served = state[key]
        same = torch.equal(levels_and_scale(value)[0], levels_and_scale(served)[0]) if value.ndim == 4 and not key.endswith("pos") else torch.equal(value, served)
        if not same:
            raise RestoreError(f"{key} in {earlier} is not what is served")
    return state | encoder


def restore(folder: Path, out: Path, earlier: Path | None = None) -> None:
    """Writes the three files and the lineage to `out`; `earlier`: see `with_encoder_of`. Raises RestoreError."""
    model = ConvertedModel(folder)
    out.mkdir(parents=True, exist_ok=True)
    written = write_source(out, "transformer", restored_transformer(model))
    wanted = model.manifest["upstream"]["revision"].get(written.name)
    if sha256_of(written) != wanted:
        raise RestoreError(f"{written} has checksum {sha256_of(written)}, the manifest says {wanted}")
    autoencoder = restored_autoencoder(model)
    write_source(out, "autoencoder", autoencoder if earlier is None else with_encoder_of(earlier, autoencoder))
    decode, synth = model.initialisers("vae_decode"), model.initialisers("audio_synth")
    sound = [next(value for name, value in synth.items() if name.endswith(end)).flatten() for end in ("mean", "std")]
    write_source(out, "normalisation", dict(zip(NORM_NAMES, (decode["mean"], decode["std"], *sound), strict=True)))
    (out / "lineage.json").write_text(json.dumps(model.manifest["upstream"].get("lineage", {}), indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("models/drive"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--encoder", type=Path, help="folder of earlier source checkpoints whose float32 encoder is the served one")
    args = parser.parse_args()
    restore(args.model, args.out, args.encoder)


if __name__ == "__main__":
    main()

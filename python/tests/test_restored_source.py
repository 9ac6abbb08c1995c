"""A converted model holds enough to go on training from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from segue_drive.checkpoint import load_drive, sha256_of
from segue_drive.picture_decoder import VaeDecode
from segue_drive.picture_encoder import quantised
from segue_drive.restored_source import ConvertedModel, RestoreError, restore


def test_what_is_restored_is_what_is_served_bit_for_bit(model_folder: Path, tmp_path: Path) -> None:
    restore(model_folder, tmp_path)
    revision = json.loads((model_folder / "manifest.json").read_text())["upstream"]["revision"]
    for name in ("transformer.safetensors", "normalisation.safetensors"):
        assert sha256_of(tmp_path / name) == revision[name]
    model, converted = load_drive(tmp_path), ConvertedModel(model_folder)
    served = converted.initialisers("vae_decode")
    decode = VaeDecode(model).state_dict()
    assert set(decode) <= set(served)
    assert all(torch.equal(value, served[name]) for name, value in decode.items())
    served = converted.initialisers("vae_encode")
    levels = {f"encoder.{name}": value for name, value in quantised(model.autoencoder.encoder).state_dict().items()}
    assert all(torch.equal(value, served[name]) for name, value in levels.items() if name in served)
    assert sum(name in served for name in levels) > 20
    widened = {tuple(value.shape): value for value in served.values() if value.dtype == torch.float32}
    for layer in ("input", "output"):  # the exporter folded these
        value = levels[f"encoder.{layer}.levels"].float() * levels[f"encoder.{layer}.scale"]
        assert torch.equal(value, widened[tuple(value.shape)])


def test_weights_that_are_not_the_manifests_are_not_restored(model_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights").symlink_to(model_folder / "weights")
    manifest = json.loads((model_folder / "manifest.json").read_text())
    manifest["upstream"]["revision"]["transformer.safetensors"] = "0" * 64
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RestoreError, match="checksum"):
        restore(folder, tmp_path / "out")

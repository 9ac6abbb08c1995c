"""Source checkpoints as safetensors and as before: the same model either way, and whatever is wrong with a file is named."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from segue_drive import key_mapping
from segue_drive.checkpoint import NORM_NAMES, NORM_SIZES, SOURCE_FILES, load_drive, read_source, sha256_of, write_source
from segue_drive.key_mapping import KeyMappingError, source_state
from segue_drive.parity import check_mapping
from segue_drive.source_reference import SourceReference
from segue_drive.training.export import rotary_tables
from segue_drive.transformer import DriveTransformer
from segue_drive.vae import PictureAutoencoder


@pytest.fixture(scope="module")
def parts() -> dict[str, dict[str, Tensor]]:
    torch.manual_seed(1)
    return {
        "transformer": source_state(DriveTransformer(), key_mapping.TRANSFORMER) | rotary_tables(),
        "autoencoder": source_state(PictureAutoencoder(), key_mapping.AUTOENCODER),
        "normalisation": {name: torch.rand(size) + 0.5 for name, size in zip(NORM_NAMES, NORM_SIZES)},
    }


def written(folder: Path, parts: dict[str, dict[str, Tensor]], **changed: dict[str, Tensor]) -> Path:
    for part, tensors in {**parts, **changed}.items():
        write_source(folder, part, tensors)
    return folder


def test_safetensors_and_the_files_of_before_give_the_same_model(tmp_path: Path, parts) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    torch.save(parts["transformer"], old / "dit.pt")
    torch.save(parts["autoencoder"], old / "vae.pt")
    torch.save([parts["normalisation"][name] for name in NORM_NAMES], old / "norm.pt")
    before, after = load_drive(old), load_drive(written(new, parts))
    for name in ("transformer", "autoencoder"):
        ours, theirs = getattr(after, name).state_dict(), getattr(before, name).state_dict()
        assert all(torch.equal(value, theirs[key]) for key, value in ours.items())
    assert all(torch.equal(getattr(before, name), getattr(after, name)) for name in NORM_NAMES)
    assert list(before.source_sha256) == ["dit.pt", "vae.pt", "norm.pt"]
    assert after.source_sha256 == {names[0]: sha256_of(new / names[0]) for names in SOURCE_FILES.values()}
    assert after.transformer_sha256 == sha256_of(new / "transformer.safetensors")


def test_safetensors_count_where_a_folder_has_both(tmp_path: Path, parts) -> None:
    torch.save({"nothing": torch.zeros(1)}, tmp_path / "dit.pt")
    assert set(read_source(written(tmp_path, parts), "transformer")) == set(parts["transformer"])


def test_a_missing_file_is_named(tmp_path: Path, parts) -> None:
    (written(tmp_path, parts) / "autoencoder.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"autoencoder.*autoencoder\.safetensors, vae\.pt"):
        load_drive(tmp_path)


def without(tensors: dict[str, Tensor], key: str) -> dict[str, Tensor]:
    return {name: value for name, value in tensors.items() if name != key}


@pytest.mark.parametrize(
    ("part", "change", "named"),
    [
        ("transformer", lambda t: without(t, "V.3.o.weight"), r"picture_experts\.3\.attention_output\.weight"),
        ("transformer", lambda t: without(t, "rc"), "rc"),
        ("transformer", lambda t: t | {"V.6.o.weight": torch.zeros(192, 192)}, r"V\.6\.o\.weight"),
        ("transformer", lambda t: t | {"emb.weight": torch.zeros(75, 192)}, r"emb\.weight \(75, 192\)"),
        ("transformer", lambda t: t | {"rs": t["rs"] + 1}, "rotary table rs"),
        ("autoencoder", lambda t: without(t, "d.pos"), r"decoder\.position"),
        ("autoencoder", lambda t: t | {"d.more": torch.zeros(1)}, r"d\.more"),
        ("normalisation", lambda t: without(t, "sound_std"), "sound_std"),
        ("normalisation", lambda t: t | {"colour_mean": torch.zeros(3)}, "colour_mean"),
        ("normalisation", lambda t: t | {"latent_mean": torch.zeros(15)}, r"latent_mean has shape \(15,\), expected \(16,\)"),
    ],
)
def test_a_missing_or_extra_key_and_a_wrong_shape_are_named(tmp_path: Path, parts, part: str, change, named: str) -> None:
    written(tmp_path, parts, **{part: change(parts[part])})
    with pytest.raises(KeyMappingError, match=named):
        load_drive(tmp_path)


def test_a_file_that_is_cut_short_is_named(tmp_path: Path, parts) -> None:
    path = written(tmp_path, parts) / "autoencoder.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(KeyMappingError, match="autoencoder.safetensors"):
        load_drive(tmp_path)


def test_an_altered_file_is_another_checkpoint_than_the_one_that_the_trajectory_is_of(tmp_path: Path, parts) -> None:
    """One bit of one weight: it loads, but the conversion refuses it, naming both checksums."""
    path = written(tmp_path, parts) / "transformer.safetensors"
    reference = SourceReference(torch.zeros(1).numpy(), torch.zeros(1).numpy(), sha256_of(path))
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=reference.source_sha256):
        check_mapping(load_drive(tmp_path), reference)

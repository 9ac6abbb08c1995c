"""The source checkpoints: transformer, autoencoder, and normalisation of latents and sound controls.

Each is a safetensors file (`transformer.safetensors`, …), as `training.export` writes it; a folder of before has `dit.pt`, `vae.pt` and `norm.pt`, which are
read the same way. Where a folder has both, safetensors count.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from . import key_mapping
from .key_mapping import KeyMappingError, MappingReport, load_strictly
from .transformer import DriveTransformer, space_angles, time_rotation
from .vae import PictureAutoencoder

SOURCE_FILES = {  # part -> names that its file may have, in order of preference
    "transformer": ("transformer.safetensors", "dit.pt"),
    "autoencoder": ("autoencoder.safetensors", "vae.pt"),
    "normalisation": ("normalisation.safetensors", "norm.pt"),
}
NORM_NAMES = ("latent_mean", "latent_std", "sound_mean", "sound_std")
NORM_SIZES = (16, 16, 32, 32)


@dataclass
class DriveModel:
    transformer: DriveTransformer
    autoencoder: PictureAutoencoder
    latent_mean: Tensor  # [16]
    latent_std: Tensor
    sound_mean: Tensor  # [32]
    sound_std: Tensor
    transformer_mapping: MappingReport
    autoencoder_mapping: MappingReport
    source_sha256: dict[str, str]  # by name of the file that was read

    def source_file(self, part: str) -> str:
        """Name of the file that a part of `SOURCE_FILES` was read from."""
        return next(name for name in SOURCE_FILES[part] if name in self.source_sha256)

    @property
    def transformer_sha256(self) -> str:
        return self.source_sha256[self.source_file("transformer")]


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def source_path(source_dir: Path, part: str) -> Path:
    """The file of a part. Raises FileNotFoundError naming all that it might have been."""
    for name in SOURCE_FILES[part]:
        if (source_dir / name).is_file():
            return source_dir / name
    raise FileNotFoundError(f"{source_dir} has no {part}: none of {', '.join(SOURCE_FILES[part])}")


def source_sha256(source_dir: Path) -> dict[str, str]:
    """By name of the file that is read of each part."""
    return {path.name: sha256_of(path) for path in (source_path(source_dir, part) for part in SOURCE_FILES)}


def read_source(source_dir: Path, part: str) -> dict[str, Tensor]:
    """A part's tensors by the source's keys. Raises FileNotFoundError, or KeyMappingError for a file that is no checkpoint."""
    path = source_path(source_dir, part)
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except SafetensorError as error:
            raise KeyMappingError(f"{path.name} can't be read: {error}") from error
    raw = torch.load(path, map_location="cpu", weights_only=True)
    return dict(zip(NORM_NAMES, raw, strict=True)) if part == "normalisation" else raw


def write_source(source_dir: Path, part: str, tensors: dict[str, Tensor]) -> Path:
    """As safetensors, in a new file that takes the old one's place."""
    path = source_dir / SOURCE_FILES[part][0]
    fresh = path.with_name(f"{path.name}.new")
    save_file({key: value.detach().contiguous().clone() for key, value in tensors.items()}, fresh)
    return fresh.replace(path)


def normalisation_of(source_dir: Path) -> tuple[Tensor, ...]:
    """In the order of `NORM_NAMES`. Raises KeyMappingError naming keys that are missing, not known, or of another shape."""
    raw, name = read_source(source_dir, "normalisation"), source_path(source_dir, "normalisation").name
    if set(raw) != set(NORM_NAMES):
        raise KeyMappingError(f"{name}: missing {sorted(set(NORM_NAMES) - set(raw))}, not known {sorted(set(raw) - set(NORM_NAMES))}")
    for key, size in zip(NORM_NAMES, NORM_SIZES):
        if tuple(raw[key].shape) != (size,):
            raise KeyMappingError(f"{name}: {key} has shape {tuple(raw[key].shape)}, expected {(size,)}")
    return tuple(raw[key].float() for key in NORM_NAMES)


def _check_rotary_tables(source: dict[str, Tensor]) -> None:
    """The source's own rotary tables (8 chunks) must be what `space_angles` and `time_rotation` give: else positions mean something else."""
    chunks = source["rc"].shape[0] // space_angles().shape[0]
    cos, sin = time_rotation(torch.arange(chunks))
    for key, time, space in (("rc", cos, space_angles().cos()), ("rs", sin, space_angles().sin())):
        mine = torch.cat([time[:, None].expand(-1, space.shape[0], -1), space.float()[None].expand(chunks, -1, -1)], -1).flatten(0, 1)
        if (mine - source[key]).abs().max() > 1e-5:
            raise KeyMappingError(f"rotary table {key} of the source differs from the definition")


def load_drive(source_dir: Path, transformer_rules: dict[str, str] = key_mapping.TRANSFORMER) -> DriveModel:
    """Loads the three files strictly. Raises FileNotFoundError or KeyMappingError."""
    transformer, autoencoder = DriveTransformer(), PictureAutoencoder()
    raw = read_source(source_dir, "transformer")
    missing = [key for key in key_mapping.TRANSFORMER_DERIVED if key not in raw]
    if missing:
        raise KeyMappingError(f"{source_path(source_dir, 'transformer').name}: missing {missing}")
    transformer_mapping = load_strictly(transformer, raw, transformer_rules, key_mapping.TRANSFORMER_DERIVED)
    _check_rotary_tables(raw)
    autoencoder_mapping = load_strictly(autoencoder, read_source(source_dir, "autoencoder"), key_mapping.AUTOENCODER)
    return DriveModel(
        transformer.eval(), autoencoder.eval(), *normalisation_of(source_dir), transformer_mapping=transformer_mapping,
        autoencoder_mapping=autoencoder_mapping, source_sha256=source_sha256(source_dir),
    )

"""The source checkpoints: `dit.pt` (transformer), `vae.pt` (autoencoder), `norm.pt` (normalisation of latents and sound controls)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from . import key_mapping
from .key_mapping import KeyMappingError, MappingReport, load_strictly
from .transformer import DriveTransformer, space_angles, time_rotation
from .vae import PictureAutoencoder

SOURCE_FILES = ("dit.pt", "vae.pt", "norm.pt")
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
    source_sha256: dict[str, str]


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


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
    raw = {name: torch.load(source_dir / name, map_location="cpu", weights_only=True) for name in SOURCE_FILES}
    transformer, autoencoder = DriveTransformer(), PictureAutoencoder()
    transformer_mapping = load_strictly(transformer, raw["dit.pt"], transformer_rules, key_mapping.TRANSFORMER_DERIVED)
    _check_rotary_tables(raw["dit.pt"])
    autoencoder_mapping = load_strictly(autoencoder, raw["vae.pt"], key_mapping.AUTOENCODER)
    norm = raw["norm.pt"]
    if tuple(t.numel() for t in norm) != NORM_SIZES:
        raise KeyMappingError(f"norm.pt holds {[t.numel() for t in norm]} values, expected {NORM_SIZES}")
    return DriveModel(
        transformer.eval(), autoencoder.eval(), *(t.float() for t in norm), transformer_mapping=transformer_mapping,
        autoencoder_mapping=autoencoder_mapping, source_sha256={name: sha256_of(source_dir / name) for name in SOURCE_FILES},
    )

"""A given picture as the start of a story."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from segue_drive.geometry import NUM_PICTURE_TOKENS
from segue_drive.picture_encoder import Int8Conv2d
from segue_drive.picture_reader import PictureReader, features, random_picture
from segue_drive.rollout import DriveGraphs, decode
from segue_drive.start_chunks import bank_attributes


@pytest.fixture(scope="module")
def graphs(model_folder) -> DriveGraphs:
    return DriveGraphs(model_folder / "weights")


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    rng = np.random.default_rng(3)
    return np.stack([random_picture(rng, bank_attributes(index)) for index in range(0, 80, 5)])


def test_a_picture_comes_back_as_both_frames(graphs, pictures) -> None:
    x, _ = graphs.run("vae_encode", rgb=pictures)
    assert np.array_equal(x[:, :NUM_PICTURE_TOKENS, :64], x[:, :NUM_PICTURE_TOKENS, 64:])
    shown = decode(graphs, x[:4])
    error = (shown.astype(float) - pictures[:4, None]) ** 2
    assert 10 * np.log10(255**2 / error.mean()) > 25


def test_it_begins_with_the_sound_of_the_bank_entry_that_it_is_most_like(graphs, pictures) -> None:
    x, entry = graphs.run("vae_encode", rgb=pictures)
    bank = graphs.run("start_bank", index=entry.astype(np.int64))[0]
    assert np.array_equal(x[:, NUM_PICTURE_TOKENS:], bank[:, NUM_PICTURE_TOKENS:])
    right = [(int(e) // 16, int(e) // 4 % 4) == bank_attributes(5 * i).as_tuple()[:2] for i, e in enumerate(entry[:, 0])]
    assert sum(right) >= 15


def test_what_is_in_a_batch_does_not_matter(graphs, pictures) -> None:
    together, entries = graphs.run("vae_encode", rgb=pictures[:3])
    for i in range(3):
        alone, entry = graphs.run("vae_encode", rgb=pictures[i : i + 1])
        assert np.abs(alone[0] - together[i]).max() < 1e-4 and entry[0] == entries[i]


def test_eight_bit_weights_keep_a_convolution() -> None:
    torch.manual_seed(0)
    conv = torch.nn.Conv2d(8, 8, 3, padding=1)
    x = torch.randn(2, 8, 5, 5)
    with torch.no_grad():
        assert (Int8Conv2d(conv)(x) - conv(x)).abs().max() < 0.02
        assert Int8Conv2d(conv).levels.abs().max() <= 127


def test_the_reader_reads_rows() -> None:
    latents = torch.randn(2, 16, 8, 14)
    assert torch.allclose(features(latents), features(latents.flip(3)), atol=1e-5)
    weight, bias = torch.zeros(256, 13), torch.zeros(13)
    bias[3] = bias[5 + 2] = bias[9 + 1] = 1
    assert PictureReader(weight, bias)(latents).tolist() == [3 * 16 + 2 * 4 + 1] * 2

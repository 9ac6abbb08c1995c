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
from segue_drive.vae import unpatchify_frame


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


def test_a_chunk_of_video_is_made_frame_by_frame_and_keeps_what_it_is_not_told_to_change(graphs, pictures) -> None:
    shares = lambda value: np.full((2, 1), value, np.float32)  # noqa: E731
    zeros, noise = np.zeros((2, 32, 128), np.float32), np.random.default_rng(1).standard_normal((2, 32, 128)).astype(np.float32)
    like = graphs.run("start_bank", index=np.array([[12], [47]]))[0]

    def encoded(frames: list[np.ndarray], recolour: float, level: float) -> np.ndarray:
        x = zeros
        for i, rgb in enumerate(frames):
            frame = np.tile(np.eye(2, dtype=np.float32)[i], (2, 1))
            x = graphs.run("video_encode", rgb=rgb, frame=frame, before=x, like=like, recolour=shares(recolour), eps=noise, level=shares(level))[0]
        return x

    one, other = pictures[:2], pictures[6:8]
    as_it_is = encoded([one, other], 0, 0)
    for half, rgb in ((slice(0, 64), one), (slice(64, 128), other)):
        assert np.abs(as_it_is[:, :NUM_PICTURE_TOKENS, half] - graphs.run("vae_encode", rgb=rgb)[0][:, :NUM_PICTURE_TOKENS, half]).max() < 1e-4
    assert np.allclose(encoded([one, other], 1, 1), noise, atol=1e-5)
    recoloured, half_noised = encoded([one, other], 1, 0), encoded([one, other], 1, 0.5)
    assert np.allclose(half_noised, 0.5 * recoloured + 0.5 * noise, atol=1e-4)
    rows = [features(unpatchify_frame(torch.from_numpy(x[:, :NUM_PICTURE_TOKENS, :64].copy()))) for x in (recoloured, like)]
    assert torch.allclose(*rows, atol=0.05), "each row has the mean and the mean square of the row that it is to look like"
    assert np.array_equal(recoloured[:, NUM_PICTURE_TOKENS:], like[:, NUM_PICTURE_TOKENS:])

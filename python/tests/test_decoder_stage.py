"""The decoder is trained on what a server gives it, resumes to the same weights, and leaves the encoder as it is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from segue_drive.evaluation.model_card import history
from segue_drive.geometry import FRAMES_PER_CHUNK
from segue_drive.restored_source import restore
from segue_drive.training import decoder_stage, served_pool
from segue_drive.training.clips import CLIP_CHUNKS, render_clip
from segue_drive.training.decoder_stage import DecoderPlan, DecoderStage, cell_errors, weave
from segue_drive.training.export import export
from segue_drive.training.held_out import HeldOut
from segue_drive.training.idle_threads import IdleThreads
from segue_drive.training.served_chunks import ServedFrames
from segue_drive.training.served_pool import GROUP_CLIPS, GROUP_FRAMES, ServedPool, make_group
from segue_drive.training.sharpness import lag_difference
from segue_drive.world.styles import STYLES

CPU = torch.device("cpu")
SEED = 5


class Never:
    asked = False


@pytest.fixture(scope="module")
def source(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    restore(model_folder, folder)
    return folder


@pytest.fixture(scope="module")
def group(model_folder: Path, source: Path) -> ServedFrames:
    return make_group(0, model_folder, source, SEED, 1)


@pytest.fixture
def stage_of(model_folder: Path, source: Path, group: ServedFrames, monkeypatch: pytest.MonkeyPatch):
    """Stages whose pools hold one group again and again: following clips takes seconds."""
    monkeypatch.setattr(served_pool, "make_group", lambda number, **_: group)
    monkeypatch.setattr(decoder_stage, "VALIDATION_GROUPS", 1)
    monkeypatch.setattr(decoder_stage, "MEASURED_FRAMES", 16)
    plan = DecoderPlan(steps=4, encoded=1, served=2, warmup=1, judge_from=1, pool_groups=2, pool_first=1, steps_per_group=2, measure_every=2)
    return lambda run: DecoderStage(run, source, model_folder, plan, SEED, CPU, 0)


def test_served_chunks_lie_beside_the_true_frames_of_their_moment(group: ServedFrames) -> None:
    clip = render_clip(SEED, 1, HeldOut.open())
    assert len(group.frames) == GROUP_FRAMES == GROUP_CLIPS * CLIP_CHUNKS * FRAMES_PER_CHUNK
    second = slice(CLIP_CHUNKS * FRAMES_PER_CHUNK, 2 * CLIP_CHUNKS * FRAMES_PER_CHUNK)
    assert np.array_equal(group.frames[second], clip.frames)
    distance = np.abs(group.served.astype(np.float32) - group.encoded).mean((1, 2, 3))
    other = np.abs(group.served.astype(np.float32) - np.roll(group.encoded, len(group.frames) // 2, 0)).mean((1, 2, 3))
    assert distance.mean() < 0.8 * other.mean(), "a served chunk is nearer to its own moment than to another clip's"
    assert group.depth.min() == 0 and (group.level <= 1).all() and (group.level >= 0.5).all()


def test_a_group_depends_on_its_number_and_seed_alone(group: ServedFrames, model_folder: Path, source: Path) -> None:
    again = make_group(0, model_folder, source, SEED, 1)
    assert all(np.array_equal(getattr(group, name), getattr(again, name)) for name in served_pool.ARRAYS)


def test_after_the_plain_groups_every_third_is_in_a_style(model_folder: Path, source: Path) -> None:
    styled = make_group(1, model_folder, source, SEED, 1)
    clip, first = render_clip(SEED, GROUP_CLIPS, HeldOut.open()), slice(0, CLIP_CHUNKS * FRAMES_PER_CHUNK)
    shown, wanted = styled.styled[first], STYLES["noir"](clip.frames)
    assert styled.styled.any()
    assert np.array_equal(styled.frames[first][shown], wanted[shown]) and np.array_equal(styled.frames[first][~shown], clip.frames[~shown])
    assert not make_group(2, model_folder, source, SEED, 1).styled.any()


def test_the_pool_replaces_its_oldest_group_and_finds_what_it_had(tmp_path: Path, group: ServedFrames, monkeypatch: pytest.MonkeyPatch) -> None:
    numbered = lambda number, **_: ServedFrames(**{name: np.full_like(getattr(group, name), number) for name in served_pool.ARRAYS})  # noqa: E731
    monkeypatch.setattr(served_pool, "make_group", numbered)
    pool = ServedPool(tmp_path, 2, tmp_path, tmp_path, SEED, 0, 0)
    for _ in range(3):
        pool.add()
    assert len(pool) == 2 * GROUP_FRAMES
    assert pool.arrays["depth"][[0, GROUP_FRAMES]].tolist() == [2, 1]
    again = ServedPool(tmp_path, 2, tmp_path, tmp_path, SEED, 0, 0)
    assert again.made == 3 and np.array_equal(again.arrays["frames"], pool.arrays["frames"])
    with pytest.raises(ValueError, match="2 groups"):
        again.load_state_dict({"made": 3, "groups": 4, "seed": SEED})


def test_a_resumed_decoder_ends_with_the_same_weights_and_the_same_encoder(tmp_path: Path, stage_of, source: Path) -> None:
    straight, first = stage_of(tmp_path / "a"), stage_of(tmp_path / "b")
    encoder = [p.clone() for p in straight.autoencoder.encoder.parameters()]
    straight.pool.add()
    torch.manual_seed(0)
    for step in range(4):
        straight.train_step(step)
    first.pool.add()
    torch.manual_seed(0)
    for step in range(2):
        first.train_step(step)
    first.save(2)
    second = stage_of(tmp_path / "b")
    assert second.checkpoint.resume() == 2
    for step in range(2, 4):
        second.train_step(step)
    assert all(torch.equal(a, b) for a, b in zip(straight.autoencoder.parameters(), second.autoencoder.parameters()))
    assert all(torch.equal(straight.average.values[k], second.average.values[k]) for k in straight.average.values)
    assert all(torch.equal(a, b) for a, b in zip(encoder, second.autoencoder.encoder.parameters()))


def test_a_run_measures_both_kinds_of_pictures_and_is_exported(tmp_path: Path, stage_of, source: Path) -> None:
    assert stage_of(tmp_path).train(IdleThreads(1), Never()) == 4
    figures = decoder_stage.read(tmp_path / "decoder.jsonl")
    assert {"psnr", "gradient_amount", "served_gradient", "judge", "fooled"} <= set(figures)
    assert 20 < figures["psnr"][-1][1] < 40
    earlier = json.loads((source / "lineage.json").read_text())
    lineage = export(tmp_path, source, tmp_path / "out")
    assert lineage["parent"] == earlier["parent"] and lineage["transformer"] == earlier["transformer"]
    assert lineage["autoencoder"]["steps"] == 4 and lineage["autoencoder"]["before"] == earlier["autoencoder"]
    assert any("then 4 steps of 3 (pictures)" in line for line in history(lineage))


def test_cells_that_differ_as_much_are_no_error_and_a_grid_is_one() -> None:
    torch.manual_seed(0)
    truth = F.interpolate(torch.rand(2, 3, 16, 28), (128, 224), mode="bilinear")
    grid = truth + 0.2 * (torch.arange(128)[:, None] // 2 + torch.arange(224) // 2).remainder(2)
    assert cell_errors(truth, truth) == 0
    assert cell_errors(truth.flip(-1), truth.flip(-1)) == 0
    assert cell_errors(grid, truth) > 1
    assert weave(truth, truth) == 0 and weave(0.7 * truth, truth) < 1e-4 < 1 < weave(grid, truth)
    assert torch.equal(lag_difference(truth, 1, -1), (truth[..., 1:, :-1] - truth[..., :-1, 1:]).abs().mean(1, keepdim=True))

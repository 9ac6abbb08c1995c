"""What the committed graphs promise to their callers."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from segue_drive.parity import director_prompts, scripted_trajectory, trajectory_noise
from segue_drive.rollout import DriveGraphs, StreamState, denoise_chunk, encode_prompts, roll_out, write_chunk
from segue_drive.source_reference import SourceReference
from segue_drive.vocabulary import DIRECTOR_PROMPT_WORDS


@pytest.fixture(scope="module")
def graphs(model_folder) -> DriveGraphs:
    return DriveGraphs(model_folder / "weights")


def test_manifest_names_the_committed_files(model_folder) -> None:
    manifest = json.loads((model_folder / "manifest.json").read_text())
    on_disk = {f"{folder}/{path.name}" for folder in ("weights", "adapters") if (model_folder / folder).exists() for path in (model_folder / folder).iterdir()}
    assert set(manifest["files"]) == on_disk
    for name, entry in manifest["files"].items():
        data = (model_folder / name).read_bytes()
        assert len(data) == entry["bytes"] and hashlib.sha256(data).hexdigest() == entry["sha256"]
    assert sum(entry["bytes"] for entry in manifest["files"].values()) <= 30_000_000


def test_manifest_signature_is_the_graphs_own(model_folder, graphs) -> None:
    manifest = json.loads((model_folder / "manifest.json").read_text())
    for name, component in manifest["components"].items():
        session = graphs.session(name)
        assert [entry["name"] for entry in component["inputs"]] == [value.name for value in session.get_inputs()]
        assert [entry["name"] for entry in component["outputs"]] == [value.name for value in session.get_outputs()]
        assert all(entry["shape"][0] == "B" for entry in component["inputs"] + component["outputs"])


def test_trajectory_matches_the_source(graphs) -> None:
    prompts, actions = scripted_trajectory()
    trajectory = roll_out(graphs, prompts, actions, trajectory_noise())
    assert SourceReference.load().difference(trajectory) < 1e-3


def _stream(graphs: DriveGraphs, chunks: int, batch: int = 2) -> tuple[StreamState, dict, np.ndarray, np.ndarray]:
    noise = trajectory_noise(batch, 5)
    state, text = StreamState(batch), encode_prompts(graphs, ["forest day clear", "city night rain"][:batch])
    steer, speed = np.ones((batch, 1), np.int64), np.full((batch, 1), 2)
    for _ in range(chunks):
        x = denoise_chunk(graphs, state, text, steer, speed, next(noise), 2)
        write_chunk(graphs, state, text, steer, speed, x, next(noise))
    return state, text, steer, speed


def test_masked_blocks_have_no_influence(graphs) -> None:
    state, text, steer, speed = _stream(graphs, 3)
    eps = next(trajectory_noise(2, 9))
    clean = denoise_chunk(graphs, state, text, steer, speed, eps, 2)
    window_inputs = state.window_inputs
    rng = np.random.default_rng(0)

    def littered() -> dict[str, np.ndarray]:
        inputs = window_inputs()
        for i in range(4):
            for kind in "kv":
                inputs[f"{kind}{i}"] = rng.standard_normal(inputs[f"{kind}{i}"].shape, np.float32)
        return inputs

    state.window_inputs = littered  # type: ignore[method-assign]
    assert np.array_equal(clean, denoise_chunk(graphs, state, text, steer, speed, eps, 2))


def test_a_pinned_frame_keeps_what_was_seen_and_the_other_follows(graphs) -> None:
    state, text, steer, speed = _stream(graphs, 2)
    eps = next(trajectory_noise(2, 9))
    seen = denoise_chunk(graphs, state, text, steer, speed, eps, 2)
    right = np.full((2, 1), 2)
    pinned = denoise_chunk(graphs, state, text, right, speed, next(trajectory_noise(2, 10)), 2, pin=seen, pin_frames=np.tile(np.float32([1, 0]), (2, 1)))
    assert np.allclose(pinned[:, :28, :64], seen[:, :28, :64], atol=1e-6) and np.allclose(pinned[:, 28:30], seen[:, 28:30], atol=1e-6)
    assert np.abs(pinned[:, :28, 64:] - seen[:, :28, 64:]).mean() > 0.05


def test_time_is_relative(graphs) -> None:
    """Keys are stored rotated at absolute time: an hour into a stream (21,600 chunks) must look like its beginning."""
    results = []
    for offset in (0, 21600):
        noise = trajectory_noise(1, 5)
        state, text = StreamState(1), encode_prompts(graphs, ["coast dusk fog"])
        state.chunk_index = offset
        steer, speed = np.ones((1, 1), np.int64), np.full((1, 1), 2)
        for _ in range(4):
            x = denoise_chunk(graphs, state, text, steer, speed, next(noise), 2)
            write_chunk(graphs, state, text, steer, speed, x, next(noise))
        results.append(x)
    assert np.abs(results[0] - results[1]).max() < 1e-3


def _read(graphs: DriveGraphs, prompts: list[list[int]], padding: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ids = np.array([prompt + [padding] * (DIRECTOR_PROMPT_WORDS - len(prompt)) for prompt in prompts], np.int64)
    position = np.array([[len(prompt) - 1] for prompt in prompts], np.int64)
    return (*graphs.run("director_prefill", ids=ids, position=position), position)


def test_the_director_never_sees_padding_or_rows_not_written_yet(graphs) -> None:
    prompts = director_prompts(3)
    logits, kv, position = _read(graphs, prompts)
    other_logits, other_kv, _ = _read(graphs, prompts, padding=17)
    assert np.array_equal(logits, other_logits) and not np.array_equal(kv, other_kv)
    word, rng = logits.argmax(1)[:, None], np.random.default_rng(0)
    littered = kv.copy()
    for row, last in enumerate(position[:, 0]):
        littered[row, :, last + 1 :] = rng.standard_normal(littered[row, :, last + 1 :].shape, np.float32)
    clean, clean_kv = graphs.run("director_step", word=word, position=position + 1, kv=kv)
    dirty, dirty_kv = graphs.run("director_step", word=word, position=position + 1, kv=littered)
    assert np.array_equal(clean, dirty)
    for row, last in enumerate(position[:, 0]):
        assert np.array_equal(clean_kv[row, :, : last + 2], dirty_kv[row, :, : last + 2])
        assert np.array_equal(clean_kv[row, :, : last + 1], kv[row, :, : last + 1]), "rows of earlier words stay as they are"
        assert not np.array_equal(clean_kv[row, :, last + 1], kv[row, :, last + 1]), "its own row is written"


def test_reading_word_by_word_is_reading_at_once(graphs) -> None:
    """Three prompts of different lengths: all of each at once, or one word and then the others one by one."""
    prompts = director_prompts(3)
    logits, kv, position = _read(graphs, prompts)
    for row, prompt in enumerate(prompts):
        said, kept, _ = _read(graphs, [prompt[:1]])
        for at, word in enumerate(prompt[1:], 1):
            said, kept = graphs.run("director_step", word=np.array([[word]]), position=np.array([[at]]), kv=kept)
        assert np.abs(said[0] - logits[row]).max() < 1e-4
        assert np.abs(kept[0, :, : len(prompt)] - kv[row, :, : len(prompt)]).max() < 1e-4


def test_start_bank_shows_the_asked_for_place(graphs) -> None:
    x = graphs.run("start_bank", index=np.arange(16)[:, None] * 5)[0]
    assert x.shape == (16, 32, 128) and x.dtype == np.float32
    assert len({row.tobytes() for row in x}) == 16

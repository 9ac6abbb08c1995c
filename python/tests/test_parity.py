"""Noise that both sides draw, levels of parity, where weights lie, and pictures against renders."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from segue_drive import philox
from segue_drive.evaluation.against_renders import colours_of_roll_outs, render_like, ssim, true_drive
from segue_drive.evaluation.cases import make_cases
from segue_drive.evaluation.lines import mean_line
from segue_drive.parity import parity_levels
from segue_drive.philox import Counter
from segue_drive.render_parity import COLOURS_AT_LEAST, DRIVES, SSIM_AT_LEAST, compare, generated_frames, histogram, intersection, thumbnail, true_frames
from segue_drive.rollout import DriveGraphs
from segue_drive.start_chunks import bank_attributes
from segue_drive.stored_weights import StoredWeights
from segue_drive.training.held_out import HeldOut


def test_philox_gives_the_published_known_answers() -> None:
    assert [int(w) for w in philox.words(Counter(0), 4)] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    many = philox.words(Counter(7, 1, 2, 3, 4), 4000)
    assert np.array_equal(philox.words(Counter(7, 1, 2, 3, 4), 37), many[:37])
    sample = philox.normal(Counter(7), (1 << 14,))
    assert abs(sample.mean()) < 0.05 and abs(sample.std() - 1) < 0.05


def test_a_level_passes_when_all_of_its_checks_do_and_names_the_nearest_to_its_tolerance() -> None:
    def check(name: str, difference: float, tolerance: float) -> dict:
        return {"check": name, "max_difference": difference, "tolerance": tolerance, "passed": difference <= tolerance}

    levels = parity_levels([check("C0 a", 0.1, 1), check("C0 b", 0.002, 0.01), check("C1 c", 1, 0), check("C1 d", 0.5, 1)])
    assert levels["C0"] == {"status": "passed", "checks": 2, "worst": {"check": "C0 b", "max_difference": 0.002, "tolerance": 0.01}}
    assert levels["C1"]["status"] == "failed" and levels["C1"]["worst"]["check"] == "C1 c"


def test_manifest_and_report_of_the_shipped_model_say_the_same_of_parity(model_folder: Path) -> None:
    manifest, report = (json.loads((model_folder / f"{name}.json").read_text()) for name in ("manifest", "report"))
    assert report["parity_levels"] == parity_levels(report["parity"])
    assert manifest["parity"] == {level: "passed" for level in ("C0", "C1", "C2", "C4")}


def test_places_of_the_manifest_hold_as_many_bytes_as_the_parameters_have(model_folder: Path) -> None:
    manifest = json.loads((model_folder / "manifest.json").read_text())
    for component in manifest["components"].values():
        for row in component["key_mapping"]:
            places = row.get("stored", [])
            size = int(np.prod(row["shape"]))
            assert [place["bytes"] for place in places] in ([], [4 * size], [size, 4 * row["shape"][0]])
            for place in places:
                assert place["offset"] + place["bytes"] <= manifest["files"][place["file"]]["bytes"]


def test_stored_weights_are_found_as_they_are_and_transposed_and_others_are_not(model_folder: Path) -> None:
    folder = model_folder / "weights"
    stored = StoredWeights(folder)
    manifest = json.loads((model_folder / "manifest.json").read_text())
    row = next(row for row in manifest["components"]["denoise_step"]["key_mapping"] if row["source"] == "V.0.qkv.weight")
    place = row["stored"][0]
    values = np.fromfile(folder / "drive.weights", "<f4", place["bytes"] // 4, offset=place["offset"]).reshape(row["shape"][::-1])
    assert stored.places("denoise_step", row["target"], torch.from_numpy(values.T.copy())) == [place]
    assert stored.places("denoise_step", row["target"], torch.from_numpy(values)) == [place]
    assert stored.places("denoise_step", row["target"], torch.zeros(row["shape"])) == []


def test_measures_of_pictures() -> None:
    rng = np.random.default_rng(1)
    picture, other = (rng.integers(0, 256, (128, 224, 3), np.uint8) for _ in range(2))
    assert ssim(picture, picture) == 1 and ssim(picture, other) < 0.1
    assert thumbnail(np.full((128, 224, 3), 255, np.uint8)).tolist() == [[255] * 56] * 32
    assert intersection(histogram(picture), histogram(picture)) == 1
    assert intersection(histogram(np.zeros((2, 2, 3), np.uint8)), histogram(np.full((2, 2, 3), 255, np.uint8))) == 0


def test_a_drive_of_the_bank_resembles_its_renders_and_another_does_not(model_folder: Path) -> None:
    index, graphs = DRIVES[0], DriveGraphs(model_folder / "weights")
    made = generated_frames(graphs, index)
    same, other = compare(made, true_frames(index)), compare(made, true_frames(DRIVES[5]))
    assert same[0] > SSIM_AT_LEAST > other[0] and same[1] > 0.7 > other[1] and COLOURS_AT_LEAST > other[1]


def test_drives_of_ci_hold_every_word_and_nothing_held_out() -> None:
    states = [bank_attributes(index).as_tuple() for index in DRIVES]
    assert [len({state[at] for state in states}) for at in range(3)] == [5, 4, 4]
    assert not set(states) & HeldOut.open().combinations


def test_evaluation_draws_its_own_drives_and_its_lines_have_intervals(model_folder: Path) -> None:
    held_out = HeldOut.open()
    first, again, next_one = (true_drive((1, 300, i), held_out) for i in (0, 0, 1))
    assert np.array_equal(first[3], again[3]) and not np.array_equal(first[3], next_one[3])
    case = make_cases("trained", 1, 1, held_out)[0]
    assert abs(render_like(case, (1, 2, 3)).sum() - 1) < 1e-9
    lines = colours_of_roll_outs(DriveGraphs(model_folder / "weights"), 2, 5, held_out)
    assert [line.name.split(": ")[1].split()[0] for line in lines] == ["place", "time", "weather"]
    assert all(line.interval[0] <= line.value <= line.interval[1] for line in lines)
    line = mean_line("x", [0.8, 1.0] * 50, "y", 0.85)
    assert line.passed is True and line.sure is True and abs(line.interval[0] - 0.8803) < 1e-3

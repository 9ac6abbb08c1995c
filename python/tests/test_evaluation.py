"""Intervals, cases and judgements of the evaluation."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from segue_drive.adapters import seeded_adapter
from segue_drive.evaluation.adapters import Drive, measure_adapters
from segue_drive.evaluation.cases import FAMILIES, LAST_CHUNK, NUM_CHUNKS, SWITCH_CHUNK, make_cases, time_to_stay
from segue_drive.evaluation.compare import table
from segue_drive.evaluation.lines import number_line, share_line, wilson
from segue_drive.evaluation.model_card import card
from segue_drive.evaluation.place_judge import PlaceJudge
from segue_drive.evaluation.sound_judge import judge_sound, world_controls
from segue_drive.evaluation.streams import choose, run_cases, steer_response
from segue_drive.evaluation.style_judge import StyleJudge, unseen_renders
from segue_drive.rollout import DriveGraphs
from segue_drive.training.held_out import HeldOut
from segue_drive.world.styles import STYLES


@pytest.fixture(scope="module")
def graphs(model_folder) -> DriveGraphs:
    return DriveGraphs(model_folder / "weights")


def test_wilson_intervals() -> None:
    low, high = wilson(190, 200)
    assert abs(low - 0.9104) < 1e-3 and abs(high - 0.9726) < 1e-3
    assert wilson(200, 200)[1] == 1.0 and 0.98 < wilson(200, 200)[0] < 0.982
    with pytest.raises(ValueError):
        wilson(3, 2)


def test_a_line_passes_by_its_value_and_is_sure_by_its_interval() -> None:
    line = share_line("x", 191, 200, 0.95)
    assert line.passed is True and line.sure is False
    assert share_line("x", 189, 200, 0.95).passed is False
    assert number_line("x", 3.0, "ms", at_least=1, at_most=2).passed is False
    assert '"bar": ">= 0.95"' in line.as_json()


def test_cases_are_seeded_and_hold_to_their_family() -> None:
    held_out = HeldOut.open()
    for family in FAMILIES:
        cases = make_cases(family, 24, 1, held_out)
        assert cases == make_cases(family, 24, 1, held_out) and cases != make_cases(family, 24, 2, held_out)
        for case in cases:
            assert case.before not in held_out.combinations and case.before != case.after
            assert (case.after in held_out.combinations) == (family == "held_out_combinations")
    assert any(case.steered for case in make_cases("trained", 4, 1, held_out))
    assert NUM_CHUNKS - SWITCH_CHUNK == 9 and LAST_CHUNK == NUM_CHUNKS - 1  # 1.5 s


def testtime_to_stay() -> None:
    assert time_to_stay(np.array([False, True, False, True, True])) == pytest.approx(4 / 6)
    assert time_to_stay(np.array([True, True])) == pytest.approx(1 / 6)
    assert time_to_stay(np.array([True, False])) is None


def test_the_sound_judge_knows_the_worlds_own_sound() -> None:
    rng = np.random.default_rng(4)
    right = []
    for seed in range(6):
        state, speed = (int(rng.integers(5)), int(rng.integers(4)), int(rng.integers(4))), int(rng.integers(4))
        right += [judge_sound(controls, state, speed) for controls in world_controls(state, speed, 1000 + seed)]
    assert all(s for s, _ in right) and sum(w for _, w in right) >= 0.95 * len(right)


def test_streams_are_the_same_alone_and_together_and_steering_acts(graphs: DriveGraphs) -> None:
    cases = make_cases("trained", 2, 3, HeldOut.open())
    together = run_cases(graphs, cases, 3)
    alone = run_cases(graphs, cases[1:], 3)
    assert np.abs(together[:, 1:] - alone).max() < 1e-3
    response = steer_response(graphs, cases)
    assert ((response > 0.1) & (response < 1.2)).all()


def test_choose_takes_rows() -> None:
    new, old = {"tk": np.ones((2, 3))}, {"tk": np.zeros((2, 3))}
    assert choose(np.array([True, False]), new, old)["tk"].tolist() == [[1, 1, 1], [0, 0, 0]]


def test_the_card_tells_what_is_missed_and_where_the_weights_come_from() -> None:
    lines = [json.loads(line.as_json()) for line in (share_line("adherence", 150, 200, 0.95), number_line("PSNR", 32.0, "dB", at_least=31), number_line("info", 1, "ms"))]
    manifest = {"upstream": {"revision": {"dit.pt": "a" * 64}}}
    plan = {"steps": 7, "plan": {"batch": 2}, "held_out": "b" * 64}
    text = card(lines, manifest, {"parent": {"dit.pt": "c" * 64}, "transformer": plan, "autoencoder": "of the parent"}, HeldOut.open())
    assert "| adherence | 75.0 % | 68.6–80.5 % | 200 | >= 0.95 | **no** |" in text
    assert "1 of 2 lines with a bar hold" in text and "## Does not hold\n\n- adherence" in text
    assert "had been trained on all 80 combinations" in text and "transformer: 7 steps of 2" in text


def test_a_comparison_is_certain_only_when_intervals_part() -> None:
    line = lambda hits: {"adherence": json.loads(share_line("adherence", hits, 200, 0.95).as_json())}  # noqa: E731
    assert table(line(150), line(198)).endswith("| >= 0.95 | no, yes | better |")
    assert table(line(192), line(196)).endswith("| >= 0.95 | yes, yes |  |")
    assert "| – |" in table(line(150), {})


def test_judges_of_styles_and_places_know_unseen_renders() -> None:
    renders, places = unseen_renders(200)
    known, unseen = renders[:150], renders[150:]
    judge = StyleJudge(known)
    for name, style in (("plain", lambda f: f), *STYLES.items()):
        assert (judge(style(unseen)) == judge.names.index(name)).mean() >= 0.95, name
    assert (judge.score(STYLES["noir"](unseen), "noir") > judge.score(unseen, "noir")).all()
    assert (PlaceJudge(STYLES["noir"](known), places[:150])(STYLES["noir"](unseen)) == places[150:]).mean() >= 0.85


def test_a_fork_goes_on_as_its_origin_would(graphs: DriveGraphs) -> None:
    drive = Drive(graphs, make_cases("trained", 1, 3, HeldOut.open()))
    drive.chunk(None)
    fork, styled = drive.fork(), drive.fork()
    other = styled.chunk(seeded_adapter(1, "a" * 64).graph_inputs(1))
    expected = [drive.chunk(None) for _ in range(2)]
    assert all(np.array_equal(fork.chunk(None), x) for x in expected) and not np.array_equal(other, expected[0])


def test_adapters_are_measured_from_one_state(graphs: DriveGraphs) -> None:
    """With random numbers for an adapter: no style shows, and that is what the lines say."""
    random = replace(seeded_adapter(1, "a" * 64, rank=2, size=0.01), id="noir")
    lines = {line.name.partition(": ")[2]: line for line in measure_adapters(graphs, [random], 2, 5, fitted_on=80)}
    assert lines["a live switch shows within 1.5 s and stays"].value == 0 and lines["median time until a live switch shows"].passed is False
    assert lines["scale 0 against the plain graphs, largest difference of latents"].value == 0
    assert lines["the world's own renders in the style, named right by the same judge"].value == 1

"""What training must never show, it never shows; and the same seed gives the same stream."""

from __future__ import annotations

import json

import numpy as np
import pytest

from segue_drive.training.clips import changed, render_clip
from segue_drive.training.director_task import director_batch, director_example
from segue_drive.training.frames import MEASURE_SEED, measured_frames
from segue_drive.training.held_out import FILE, HELD_OUT_TEMPLATES, TRAINING_TEMPLATES, HeldOut, document
from segue_drive.training.prompts import phrased, training_prompt
from segue_drive.vocabulary import PROMPT_TEMPLATES, WORD_IDS, WORDS, encode_prompt
from segue_drive.world import Attributes


@pytest.fixture(scope="module")
def held_out() -> HeldOut:
    return HeldOut.open()


def test_the_stored_lists_are_what_their_hash_and_their_seed_say(held_out: HeldOut) -> None:
    assert held_out.sha256 == document()["sha256"]
    assert len(held_out.combinations) == 8 and len(held_out.templates) == 6
    for axis, size in enumerate((5, 4, 4)):
        assert {c[axis] for c in held_out.combinations} == set(range(size))


def test_an_altered_list_is_refused() -> None:
    stored = json.loads(FILE.read_text())
    stored["combinations"].pop()
    with pytest.raises(ValueError, match="altered"):
        HeldOut(stored)


def test_no_clip_ever_asks_for_a_held_out_combination(held_out: HeldOut) -> None:
    rng = np.random.default_rng(0)
    for _ in range(2000):
        attributes = held_out.training_attributes(rng)
        assert not held_out.contains(attributes)
        assert not held_out.contains(changed(attributes, rng, held_out))
    for index in range(3):
        for state in render_clip(5, index, held_out).attributes:
            assert not held_out.contains(Attributes(*map(int, state)))


def test_no_director_example_starts_or_ends_in_a_held_out_combination(held_out: HeldOut) -> None:
    from segue_drive.training.director_task import state_words

    forbidden = {" ".join(state_words(c)) for c in held_out.combinations}
    rng = np.random.default_rng(1)
    for _ in range(1000):
        ids, first = director_example(rng, held_out)
        words = [WORDS[i] for i in ids]
        before = " ".join(words[1 : words.index("<sep>")])
        after = " ".join(words[first : words.index("<sep>", first)])
        assert before not in forbidden and after not in forbidden


def test_training_prompts_are_never_in_a_held_out_phrasing(held_out: HeldOut) -> None:
    assert not set(held_out.templates) & set(TRAINING_TEMPLATES) and not set(held_out.templates) & set(PROMPT_TEMPLATES)
    rng = np.random.default_rng(2)
    unseen = {phrased((2, 3, 1), template, rng) for template in HELD_OUT_TEMPLATES for _ in range(300)}
    seen = {training_prompt((2, 3, 1), rng) for _ in range(3000)}
    assert len(unseen) > 100 and len(seen) > 100 and not unseen & seen


def test_every_template_fits_the_vocabulary_and_the_prompt_length() -> None:
    longest = {"place": "snowy mountains", "time": "early morning", "weather": "clear sky"}
    for template in (*TRAINING_TEMPLATES, *HELD_OUT_TEMPLATES):
        text = template.format(**longest)
        assert len(text.split()) <= 11, f"{text!r} would be cut"
        assert encode_prompt(text)[1] == WORD_IDS[text.split()[0]]


def test_clips_are_deterministic_and_differ_by_index(held_out: HeldOut) -> None:
    first, again, other = render_clip(3, 7, held_out), render_clip(3, 7, held_out), render_clip(3, 8, held_out)
    assert np.array_equal(first.frames, again.frames) and np.array_equal(first.controls, again.controls)
    assert not np.array_equal(first.frames, other.frames)
    assert first.frames.shape == (32, 128, 224, 3) and first.actions.max() <= 3


def test_measured_renders_are_worlds_that_training_cannot_reach() -> None:
    assert MEASURE_SEED * 4096 > 1 << 31  # training draws world seeds below
    frames, truth = measured_frames(4)
    assert frames.shape == (4, 3, 128, 224) and len({tuple(t) for t in truth}) == 4


def test_the_director_learns_only_what_follows_the_edit(held_out: HeldOut) -> None:
    ids, learnt = director_batch(np.random.default_rng(3), held_out, 8)
    for row in range(8):
        end = [WORDS[i] for i in ids[row]].index("<eos>")
        assert not learnt[row, :end].any() and learnt[row, end]

"""Free text to prompt: the words win, and the director follows them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from segue_drive.director import Director, PromptNotUnderstood, PromptProcessor, apply_mentions, examples, measure
from segue_drive.rollout import DriveGraphs
from segue_drive.vocabulary import DIRECTOR_PROMPT_WORDS


@pytest.fixture(scope="module")
def processor(model_folder: Path) -> PromptProcessor:
    return PromptProcessor.open(model_folder)


@pytest.mark.parametrize(("text", "state"), [
    ("Make it NIGHT!", (0, 3, 0)),
    ("snowy mountains", (4, 1, 0)),  # not "snowy" (weather) and "mountains"
    ("a snowy forest", (0, 1, 3)),
    ("Night-time at the ocean, stormy", (3, 3, 1)),
    ("no rain", (0, 1, 0)),
    ("beach, no: the alps", (4, 1, 0)),  # the last mention of a kind wins
])
def test_reads_the_mentions(processor: PromptProcessor, text: str, state: tuple[int, int, int]) -> None:
    assert apply_mentions((0, 1, 0), processor.parse(text).mentions) == state


def test_unknown_words_are_told_and_words_of_the_vocabulary_are_not(processor: PromptProcessor) -> None:
    assert processor.parse("make it a purple night with unicorns").unknown_words == ("a", "purple", "unicorns")


@pytest.mark.parametrize("text", ["", "hello there", "...", "faster"])
def test_text_without_an_attribute_is_refused(processor: PromptProcessor, text: str) -> None:
    with pytest.raises(PromptNotUnderstood):
        processor.parse(text)


def test_a_state_reads_back_from_its_words(processor: PromptProcessor) -> None:
    for place in range(5):
        for time in range(4):
            for weather in range(4):
                assert processor.read_state(processor.state_words((place, time, weather))) == (place, time, weather)
    assert processor.read_state("forest day".split()) is None


def test_three_attributes_take_two_passes(processor: PromptProcessor, model_folder: Path) -> None:
    plan = Director(processor, DriveGraphs(model_folder / "weights")).plan((0, 1, 0), processor.parse("city at midnight in a storm"))
    assert plan.passes == 2 and plan.state == (2, 3, 1) and not plan.repaired
    assert plan.prompt == "drive through the city at night with rain" and "city" in plan.narration


def test_the_prefill_is_as_long_as_the_longest_script_and_no_longer(processor: PromptProcessor) -> None:
    states = [(place, time, weather) for place in range(5) for time in range(4) for weather in range(4)]
    mentions = list({(m.attribute, m.phrase): m for m in processor.lexicon.values()}.values())
    pairs = [(a,) for a in mentions] + [(a, b) for a in mentions for b in mentions if a.attribute != b.attribute]
    edits = [edit for pair in pairs for edit, _ in processor.passes(pair)]
    longest = 3 + max(len(processor.state_words(state)) for state in states) + max(len(edit.split()) for edit in edits)
    assert longest == processor.max_prompt_words == DIRECTOR_PROMPT_WORDS


def test_the_director_says_what_it_said_when_it_computed_every_word_anew(model_folder: Path) -> None:
    stored = json.loads((Path(__file__).parents[2] / "test" / "oracle" / "processor_examples.json").read_text())
    assert json.loads(json.dumps(examples(model_folder))) == stored


def test_the_plan_is_right_on_seeded_edits(model_folder: Path) -> None:
    result = measure(model_folder, 30, 9)
    assert result["plan_right_by_templates"]["all"] >= 0.97


def test_examples_for_other_implementations_are_current(processor: PromptProcessor) -> None:
    for row in json.loads((Path(__file__).parents[2] / "test" / "oracle" / "processor_examples.json").read_text()):
        if "error" in row:
            with pytest.raises(PromptNotUnderstood):
                processor.parse(row["text"])
        else:
            assert [m.phrase for m in processor.parse(row["text"]).mentions] == [m["phrase"] for m in row["mentions"]]
            assert processor.prompt(tuple(row["new_state"])) == row["prompt"]

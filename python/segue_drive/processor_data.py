"""`vocabulary.json` and `processor.json`: all that a program outside Python needs to turn text into graph inputs and to drive the graphs."""

from __future__ import annotations

from .geometry import (
    CONTEXT_NOISE, CONTROL_DIM, CONTROLS_PER_FRAME, DIRECTOR_WORDS, FRAME_HEIGHT, FRAME_WIDTH, FRAMES_PER_CHUNK, FRAMES_PER_SECOND, MASKED,
    NUM_PICTURE_TOKENS, NUM_SOUND_TOKENS, NUM_TOKENS, PROMPT_WORDS, SAMPLE_RATE, SAMPLES_PER_CONTROL, SAMPLES_PER_FRAME, TOKEN_DIM, WINDOW_CHUNKS,
)
from .synth import NUM_BINS, neutral_control
from .transformer import time_frequencies
from .vocabulary import ABSENT, ALIASES, ATTRIBUTES, BOS, DIRECTOR_PROMPT_WORDS, EDIT_TEMPLATES_ONE, EDIT_TEMPLATES_TWO, EOS, NEGATION, PAD, PHRASES, PROMPT_TEMPLATES, SEP, SMALL_WORDS, WORDS


def vocabulary_json() -> dict:
    return {"words": WORDS, "special": {"pad": PAD, "bos": BOS, "eos": EOS, "sep": SEP}}


def processor_json() -> dict:
    return {
        "version": 1,
        "attributes": [
            {"name": name, **({"absent": ABSENT[name]} if name in ABSENT else {}), "values": [{"canonical": phrases[0], "phrases": phrases} for phrases in PHRASES[name]]} for name in ATTRIBUTES
        ],
        # at each word the longest phrase or alias that starts there; of equal length the phrase (see docs/model/prompt-processor.md)
        "matching": "longest phrase or alias at each word, a phrase before an alias of equal length, last mention of an attribute wins",
        "aliases": ALIASES,
        "negation": NEGATION,
        "small_words": SMALL_WORDS,
        "prompt_template": PROMPT_TEMPLATES[0],
        "edit_templates": {"one": EDIT_TEMPLATES_ONE[0], "two": EDIT_TEMPLATES_TWO[0]},
        "max_words": {"prompt": PROMPT_WORDS, "director": DIRECTOR_WORDS, "director_prompt": DIRECTOR_PROMPT_WORDS},
        "unknown_words": "warning",
        "no_attribute": "prompt_not_understood",
        "actions": {"steer": ["left", "straight", "right"], "speed": ["stand", "slow", "middle", "fast"]},
        "rotary": {"time_frequencies": time_frequencies().tolist()},  # radians per chunk: cos and sin of (chunk index x frequency)
        "sampling": {"steps": 2, "context_noise": CONTEXT_NOISE, "masked": MASKED, "first_t_prev": 1.0},
        "chunk": {
            "frames": FRAMES_PER_CHUNK, "tokens": NUM_TOKENS, "picture_tokens": NUM_PICTURE_TOKENS, "sound_tokens": NUM_SOUND_TOKENS,
            "token_dim": TOKEN_DIM, "window": WINDOW_CHUNKS,
        },
        "picture": {"width": FRAME_WIDTH, "height": FRAME_HEIGHT, "frames_per_second": FRAMES_PER_SECOND},
        "sound": {
            "sample_rate": SAMPLE_RATE, "samples_per_frame": SAMPLES_PER_FRAME, "tail_samples": SAMPLES_PER_CONTROL,
            "noise_shape": [CONTROLS_PER_FRAME, NUM_BINS], "control_dim": CONTROL_DIM,
            "initial_phase": 0.0, "initial_control": neutral_control().tolist(),
        },
        "start_bank": {"size": 80, "index": "place * 16 + time * 4 + weather"},
    }

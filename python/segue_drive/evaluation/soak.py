"""A long roll-out that feeds only on itself: does it still obey at the end, and is no frame frozen, flickering or exploded?"""

from __future__ import annotations

import numpy as np

from ..evaluate import Judge
from ..geometry import FRAMES_PER_CHUNK, FRAMES_PER_SECOND
from ..rollout import DriveGraphs, StreamState, encode_prompts, write_chunk
from ..training.held_out import TRAINING_TEMPLATES, HeldOut
from ..training.prompts import phrased
from .cases import chunk_noise
from .lines import Line, number_line, share_line
from .streams import NUM_STEPS, decode_frame, denoise

STREAMS = 10  # about 200 judged frames a minute
ASKED_EVERY = 48  # chunks; 8 s
JUDGED_AFTER = (24, 36, 46)  # chunks after the asking
CHUNKS_PER_MINUTE = 60 * FRAMES_PER_SECOND // FRAMES_PER_CHUNK
# Mean absolute change of pixels from frame to frame, 0..255. A standing picture still has noise of about .3; a cut between two drives is above 40.
FROZEN, FLICKER = 0.02, 40.0
PLAIN_STD = 3.0  # of a frame's pixels: below this it shows nothing


def soak(graphs: DriveGraphs, judge: Judge, minutes: int, seed: int, held_out: HeldOut, steps: int = NUM_STEPS) -> list[Line]:
    """All streams in one batch; a new prompt every 8 s, a new action every 2 s. Speeds 1..3, so that a still frame is a fault."""
    rng = np.random.default_rng((seed, 900))
    state, generators = StreamState(STREAMS), [np.random.default_rng((seed, 901, i)) for i in range(STREAMS)]
    hits: dict[int, list[bool]] = {}
    faults, pairs, spread = 0, 0, []
    actions = np.tile(np.array([1, 2]), (STREAMS, 1)).astype(np.int64)
    text, truth = {}, np.zeros((STREAMS, 3), np.int64)
    for chunk in range(minutes * CHUNKS_PER_MINUTE):
        if chunk % ASKED_EVERY == 0:
            asked = [held_out.training_attributes(rng).as_tuple() for _ in range(STREAMS)]
            text = encode_prompts(graphs, [phrased(a, TRAINING_TEMPLATES[int(rng.integers(len(TRAINING_TEMPLATES)))], rng) for a in asked])
            truth = np.array(asked)
        if chunk % 12 == 0:
            actions = np.stack([rng.integers(0, 3, STREAMS), rng.integers(1, 4, STREAMS)], 1)
        x = denoise(graphs, state, [text] * steps, [actions] * steps, chunk_noise(generators))
        write_chunk(graphs, state, text, actions[:, :1], actions[:, 1:], x, chunk_noise(generators))
        if chunk % ASKED_EVERY in JUDGED_AFTER:
            frames = [decode_frame(graphs, x, f) for f in range(2)]
            answers, _ = judge(frames[1])
            hits.setdefault(chunk // CHUNKS_PER_MINUTE, []).extend((answers == truth).all(1).tolist())
            change = np.abs(frames[1].astype(np.int16) - frames[0]).mean((1, 2, 3))
            broken = (change < FROZEN) | (change > FLICKER) | (frames[1].std((1, 2, 3)) < PLAIN_STD)
            faults += int(broken.sum())
            pairs += STREAMS
            spread.append(float(x[:, :28].std()))
    name = f"soak of {minutes} min" + (f", {steps} denoise step a chunk" if steps != NUM_STEPS else "")
    first, last = hits[0], hits[minutes - 1]
    return [
        share_line(f"{name}: all three right in the first minute", sum(first), len(first)),
        share_line(f"{name}: all three right in the last minute", sum(last), len(last)),
        number_line(f"{name}: points lost from first to last minute", 100 * (np.mean(first) - np.mean(last)), "points", at_most=3),
        number_line(f"{name}: frozen, flickering or plain frames", faults, "frames", at_most=0, count=pairs),
        number_line(f"{name}: spread of latents, last over first tenth", float(np.mean(spread[-len(spread) // 10 :]) / np.mean(spread[: max(1, len(spread) // 10)])), "ratio", at_least=0.85, at_most=1.15),
    ]

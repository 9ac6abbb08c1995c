"""The same cases and noise with fewer denoise steps: in every chunk, and in none but the first after the switch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch

from ..evaluate import Judge
from ..rollout import DriveGraphs
from ..training.held_out import HeldOut
from ..training.sharpness import gradient_amount
from ..vocabulary import ATTRIBUTES
from .cases import LAST_CHUNK, SWITCH_CHUNK, make_cases, time_to_stay
from .lines import Line, number_line, share_line
from .soak import soak
from .sound_judge import heard_controls, judge_sound
from .streams import NUM_STEPS, decode_frame, run_cases

BATCH = 4
REDUCED_STEPS = 1
SOAK_MINUTES = 2
FIRST_ONLY = "one step in the first chunk after the switch"
WAYS: dict[str, Callable[[int], int]] = {
    "two steps": lambda chunk: NUM_STEPS,
    "one step": lambda chunk: REDUCED_STEPS,
    FIRST_ONLY: lambda chunk: REDUCED_STEPS if chunk == SWITCH_CHUNK else NUM_STEPS,
}
# Of adherence, against two steps.
MOST_POINTS_LOST = {"two steps": None, "one step": 3, FIRST_ONLY: 2}


def measure_fewer_steps(graphs: DriveGraphs, judge: Judge, count: int, seed: int, held_out: HeldOut) -> Iterator[Line]:
    """All prompts change between chunks: with one step nothing can change within one."""
    for family in ("trained", "held_out_combinations"):
        right = {}
        for way, most in MOST_POINTS_LOST.items():
            if family != "trained" and way == FIRST_ONLY:
                continue
            right[way], lines = _measured(graphs, judge, family, way, count, seed, held_out)
            yield from lines
            if most is not None:
                lost = 100 * (right["two steps"] - right[way])
                yield number_line(f"points of adherence lost, {family.replace('_', ' ')}, {way}", lost, "points", at_most=most, count=count)
    yield from soak(graphs, judge, SOAK_MINUTES, seed, held_out, REDUCED_STEPS)


def _measured(graphs: DriveGraphs, judge: Judge, family: str, way: str, count: int, seed: int, held_out: HeldOut) -> tuple[float, list[Line]]:
    """The share of frames with all three right, and the lines."""
    cases = [replace(case, steered=False) for case in make_cases(family, count, seed, held_out)]
    hits, stays, turns, sound, sharp, first = [], [], [], [], [], []
    for part in (cases[i : i + BATCH] for i in range(0, len(cases), BATCH)):
        chunks = run_cases(graphs, part, steps_of=WAYS[way])
        before, after = (np.array([getattr(case, when) for case in part]) for when in ("before", "after"))
        for chunk, truth, turned in ((SWITCH_CHUNK - 1, before, 1), (LAST_CHUNK, after, -1)):
            frames = decode_frame(graphs, chunks[chunk], 1)
            answers, curve = judge(frames)
            if family != "held_out_combinations" or chunk == LAST_CHUNK:  # only what the switch leads to is held out
                hits += (answers == truth).tolist()
            turns += [np.sign(c) == turned * case.first_turn for c, case in zip(curve, part)]
            sound += [all(judge_sound(c, tuple(t), case.speed)) for c, t, case in zip(heard_controls(graphs, chunks[chunk - 1 : chunk + 1]), truth.tolist(), part)]
            sharp.append(float(gradient_amount(torch.from_numpy(frames).permute(0, 3, 1, 2).float() / 127.5 - 1).mean()))
        if family == "trained":
            seen = [(judge(decode_frame(graphs, chunks[c], 1))[0] == after).all(1) for c in range(SWITCH_CHUNK, LAST_CHUNK + 1)]
            first += (judge(decode_frame(graphs, chunks[SWITCH_CHUNK], 0))[0] == after).sum(1).tolist()
            stays += [time_to_stay(row) for row in np.array(seen).T]
    label = f"{family.replace('_', ' ')}, {way}"
    share = float(np.mean([all(hit) for hit in hits]))
    lines = [
        *(share_line(f"adherence, {label}: {name}", sum(hit[i] for hit in hits), len(hits)) for i, name in enumerate(ATTRIBUTES)),
        share_line(f"adherence, {label}: all three", sum(all(hit) for hit in hits), len(hits)),
        share_line(f"steering, {label}: sign of the road's curve", int(sum(turns)), len(turns)),
        share_line(f"sound, {label}: matches speed and weather", sum(sound), len(sound)),
        number_line(f"sharpness, {label}: gradient of pictures", float(np.mean(sharp)), "mean |difference of neighbours|", count=len(turns)),
    ]
    if stays:
        reached = [seconds for seconds in stays if seconds is not None]
        lines += [
            share_line(f"switch, {label}: all three right within 1.5 s and from then on", len(reached), len(stays)),
            number_line(f"switch, {label}: median time until all three are right", float(np.median(reached)), "s", count=len(stays)),
            number_line(f"switch, {label}: right of three in the first frame", float(np.mean(first)), "of 3", count=len(first)),
        ]
    return share, lines

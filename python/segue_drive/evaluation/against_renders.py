"""C4: generated pictures against the renderer's. One chunk after true context, frame by frame (SSIM), and the colours of roll-outs.

The bars come from ceilings that are measured beside them: what the autoencoder alone makes of the true frames, and what two sets of renders have in common.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from skimage.metrics import structural_similarity

from ..checkpoint import DriveModel, load_drive
from ..geometry import FRAMES_PER_CHUNK, WINDOW_CHUNKS
from ..render_parity import LEVELS, histogram, intersection
from ..rollout import DriveGraphs, StreamState, decode, denoise_chunk, encode_prompts, write_chunk
from ..start_chunks import encode_chunk
from ..training.held_out import HeldOut
from ..vocabulary import ATTRIBUTES, PHRASES, canonical_prompt
from ..world import Attributes, World, render, sound_controls
from .cases import SWITCH_CHUNK, TURN_CHUNK, Case, chunk_noise, make_cases
from .lines import Line, interval_line, mean_line
from .streams import decode_frame, run_cases

BATCH = 4
NUM_STEPS = 2
CONTEXT_CHUNKS = WINDOW_CHUNKS + 1  # the window is full of true chunks
COLOUR_CHUNKS = range(SWITCH_CHUNK - 4, SWITCH_CHUNK)  # long after the start, before anything else is asked for
RESAMPLES = 300
# Nine tenths of the ceilings that a run of 200 cases measured: 0.884 (rounded up), and 0.962 where two sets of renders agree least.
SSIM_AT_LEAST = 0.8
COLOURS_AT_LEAST = 0.866


def ssim(a: np.ndarray, b: np.ndarray) -> float:
    """Of luma, with the Gaussian window and constants of Wang, Bovik, Sheikh and Simoncelli (2004)."""
    luma = [frame.astype(np.float64) @ np.array([0.299, 0.587, 0.114]) for frame in (a, b)]
    return float(structural_similarity(*luma, gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=255))


def true_drive(seed: tuple[int, ...], held_out: HeldOut) -> tuple[Attributes, int, int, np.ndarray, np.ndarray]:
    """Attributes, steering and speed indices, frames `[chunks, 2, 128, 224, 3]` and sound controls `[chunks, 16, 32]` of a drive with one chunk more than the context."""
    rng = np.random.default_rng(seed)
    attributes, steer, speed = held_out.training_attributes(rng), int(rng.integers(3)), int(rng.integers(4))
    world = World(int(rng.integers(1 << 31)), attributes, steer - 1, speed)
    frames, controls = [], []
    for _ in range((CONTEXT_CHUNKS + 1) * FRAMES_PER_CHUNK):
        world.step(attributes, steer - 1, speed)
        frames.append(render(world))
        controls.append(sound_controls(world))
    shape = (CONTEXT_CHUNKS + 1, FRAMES_PER_CHUNK)
    return attributes, steer, speed, np.stack(frames).reshape(*shape, *frames[0].shape), np.stack(controls).reshape(shape[0], -1, controls[0].shape[-1])


def after_true_context(graphs: DriveGraphs, source: Path, count: int, seed: int, held_out: HeldOut) -> list[Line]:
    model = load_drive(source)
    figures = np.concatenate([_part(graphs, model, [(seed, 300, i) for i in range(first, min(count, first + BATCH))], held_out) for first in range(0, count, BATCH)])
    made, coded, still = figures.T
    name = "next chunk after true context: SSIM against the render"
    return [
        mean_line(name, made, "mean SSIM of two frames", SSIM_AT_LEAST, "bar: nine tenths of the autoencoder's own"),
        mean_line(f"{name}, the true frames encoded and decoded", coded, "mean SSIM of two frames", note="the ceiling"),
        mean_line(f"{name}, the last true frame once more", still, "mean SSIM of two frames", note="what no model would give"),
    ]


def _part(graphs: DriveGraphs, model: DriveModel, seeds: list[tuple[int, ...]], held_out: HeldOut) -> np.ndarray:
    """`[B, 3]`: SSIM of what is generated, of the true chunk encoded and decoded, of the last frame again."""
    drives = [true_drive(seed, held_out) for seed in seeds]
    state, noise = StreamState(len(drives)), [np.random.default_rng((*seed, 1)) for seed in seeds]
    text = encode_prompts(graphs, [canonical_prompt(attributes.as_tuple()) for attributes, *_ in drives])
    steer, speed = (np.array([[drive[at]] for drive in drives], np.int64) for at in (1, 2))
    coded = [np.concatenate([encode_chunk(model, frames[chunk], controls[chunk]).numpy() for *_, frames, controls in drives]) for chunk in range(CONTEXT_CHUNKS + 1)]
    for chunk in coded[:-1]:
        write_chunk(graphs, state, text, steer, speed, chunk, chunk_noise(noise))
    made = decode(graphs, denoise_chunk(graphs, state, text, steer, speed, chunk_noise(noise), NUM_STEPS))
    again = decode(graphs, coded[-1])
    rows = []
    for row, (*_, frames, _controls) in enumerate(drives):
        true, last = frames[-1], frames[-2, -1]
        rows.append([np.mean([ssim(shown[i], true[i]) for i in range(FRAMES_PER_CHUNK)]) for shown in (made[row], again[row], [last] * FRAMES_PER_CHUNK)])
    return np.array(rows)


def render_like(case: Case, seed: tuple[int, ...]) -> np.ndarray:
    """Mean colours of a drive of the world that is asked and steered as the case is, at the same moments `[64]`"""
    attributes = Attributes(*case.before)
    world = World(int(np.random.default_rng(seed).integers(1 << 31)), attributes, 0, case.speed)
    frames = []
    for chunk in range(COLOUR_CHUNKS.stop):
        for _ in range(FRAMES_PER_CHUNK):
            world.step(attributes, 0 if chunk < TURN_CHUNK else case.first_turn, case.speed)
        if chunk in COLOUR_CHUNKS:
            frames.append(render(world))
    return histogram(np.stack(frames))


def colours_of_roll_outs(graphs: DriveGraphs, count: int, seed: int, held_out: HeldOut) -> list[Line]:
    """For each place, time and weather the colours of all frames that show it, against those of as many renders; per attribute the value that agrees least."""
    cases = make_cases("trained", count, seed + 3, held_out)
    made: list | np.ndarray = []
    for first in range(0, count, BATCH):
        chunks = run_cases(graphs, cases[first : first + BATCH], SWITCH_CHUNK)
        shown = np.stack([decode_frame(graphs, chunks[chunk], 1) for chunk in COLOUR_CHUNKS], 1)
        made += [histogram(frames) for frames in shown]
    made = np.stack(made)
    renders, others = (np.stack([render_like(case, (seed, number, i)) for i, case in enumerate(cases)]) for number in (301, 302))
    lines, rng = [], np.random.default_rng((seed, 303))
    for at, attribute in enumerate(ATTRIBUTES):
        shared, ceilings = [], []
        for value in range(len(PHRASES[attribute])):
            members = np.array([i for i, case in enumerate(cases) if case.before[at] == value])
            if len(members):
                shared.append((_common(made[members], renders[members]), value, members))
                ceilings.append(_common(others[members], renders[members]))
        least, value, members = min(shared, key=lambda entry: entry[0])
        drawn = [rng.choice(members, len(members)) for _ in range(RESAMPLES)]
        interval = np.quantile([_common(made[part], renders[part]) for part in drawn], (0.025, 0.975))
        name = f"colours of roll-outs against renders: {attribute} that agrees least"
        mean = np.mean([entry[0] for entry in shared])
        lines.append(interval_line(
            name, least, (interval[0], interval[1]), f"intersection of histograms of {LEVELS**3} colours", count, COLOURS_AT_LEAST,
            f"{PHRASES[attribute][value][0]}, {len(members)} roll-outs; mean of all {attribute}s {mean:.3f}; two sets of renders agree in {min(ceilings):.3f} at least",
        ))
    return lines


def _common(a: np.ndarray, b: np.ndarray) -> float:
    return intersection(a.mean(0), b.mean(0))

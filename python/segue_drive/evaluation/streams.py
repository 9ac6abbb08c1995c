"""Cases through the graphs, in the serving configuration: two denoise steps a chunk unless told otherwise, one clean write, window of seven chunks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..geometry import NUM_PICTURE_TOKENS
from ..rollout import DriveGraphs, StreamState, encode_prompts, noise_levels, write_chunk
from .cases import NUM_CHUNKS, SWITCH_CHUNK, Case, chunk_noise

NUM_STEPS = 2
Text = dict[str, np.ndarray]


def denoise(graphs: DriveGraphs, state: StreamState, texts: list[Text], actions: list[np.ndarray], eps: np.ndarray) -> np.ndarray:
    """A chunk whose denoise steps may each have another text and action (`[B, 2]`): a change that arrives between them. There are as many steps as texts."""
    shared = {
        "eps": eps, "prev": state.prev, "pin": np.zeros_like(eps), "pin_frames": np.zeros((state.batch, 2), np.float32), "t_prev": state.t_prev,
        **state.time_inputs(), **state.window_inputs(),
    }
    x, levels = eps, noise_levels(len(texts))
    for step, (t, t_next) in enumerate(zip(levels[:-1], levels[1:])):
        steer, speed = actions[step][:, :1], actions[step][:, 1:]
        x = graphs.run(
            "denoise_step", x=x, t=np.full((state.batch, 1), t), t_next=np.full((state.batch, 1), t_next), steer=steer, speed=speed, **texts[step], **shared,
        )[0]
    return x


def choose(rows: np.ndarray, yes: Text, no: Text) -> Text:
    """Per stream one of two encoded prompts."""
    return {name: np.where(rows.reshape(-1, *[1] * (yes[name].ndim - 1)), yes[name], no[name]) for name in yes}


def run_cases(
    graphs: DriveGraphs, cases: list[Case], chunks: int = NUM_CHUNKS, start: np.ndarray | None = None, steps_of: Callable[[int], int] = lambda chunk: NUM_STEPS,
) -> np.ndarray:
    """Latents `[chunks, B, 32, 128]`. `start` replaces the first chunk; `steps_of` a chunk's index is its number of denoise steps."""
    state = StreamState(len(cases))
    generators = [case.noise() for case in cases]
    before, after = (encode_prompts(graphs, [case.prompts[i] for case in cases]) for i in (0, 1))
    steered = np.array([case.steered for case in cases])
    pressed = lambda chunk: np.array([case.action(chunk) for case in cases], np.int64)  # noqa: E731
    out = []
    for chunk in range(chunks):
        text, actions = (after if chunk >= SWITCH_CHUNK else before), pressed(chunk)
        first_text, first_actions = text, actions
        if chunk == SWITCH_CHUNK and steered.any():
            first_text, first_actions = choose(steered, before, after), np.where(steered[:, None], pressed(chunk - 1), actions)
        eps = chunk_noise(generators)
        x = start if chunk == 0 and start is not None else denoise(graphs, state, *_by_step(steps_of(chunk), first_text, text, first_actions, actions), eps)
        write_chunk(graphs, state, text, actions[:, :1], actions[:, 1:], x, chunk_noise(generators))
        out.append(x)
    return np.stack(out)


def _by_step(steps: int, first_text: Text, text: Text, first_actions: np.ndarray, actions: np.ndarray) -> tuple[list[Text], list[np.ndarray]]:
    """Text and actions of each step: what changes within a chunk does after its first; where that is the only one, nothing changes within it."""
    later = max(1, steps - 1)
    return ([first_text] * (steps - later) + [text] * later), ([first_actions] * (steps - later) + [actions] * later)


def steer_response(graphs: DriveGraphs, cases: list[Case]) -> np.ndarray:
    """How much of a full change a change between the two steps makes in its own chunk, `[B]`: 0 none, 1 as if it had come before the first step.

    Along the line from the unchanged to the changed chunk, all three from the same noise.
    """
    state = StreamState(len(cases))
    generators = [case.noise() for case in cases]
    before, after = (encode_prompts(graphs, [case.prompts[i] for case in cases]) for i in (0, 1))
    pressed = lambda chunk: np.array([case.action(chunk) for case in cases], np.int64)  # noqa: E731
    for chunk in range(SWITCH_CHUNK):
        actions = pressed(chunk)
        x = denoise(graphs, state, [before] * 2, [actions] * 2, chunk_noise(generators))
        write_chunk(graphs, state, before, actions[:, :1], actions[:, 1:], x, chunk_noise(generators))
    eps = chunk_noise(generators)
    old, new = pressed(SWITCH_CHUNK - 1), pressed(SWITCH_CHUNK)
    unchanged = denoise(graphs, state, [before] * 2, [old] * 2, eps)[:, :NUM_PICTURE_TOKENS]
    changed = denoise(graphs, state, [after] * 2, [new] * 2, eps)[:, :NUM_PICTURE_TOKENS]
    between = denoise(graphs, state, [before, after], [old, new], eps)[:, :NUM_PICTURE_TOKENS]
    full = changed - unchanged
    return ((between - unchanged) * full).sum((1, 2)) / np.maximum((full * full).sum((1, 2)), 1e-9)


def decode_frame(graphs: DriveGraphs, chunk: np.ndarray, frame: int) -> np.ndarray:
    """`[B, 32, 128]` -> uint8 `[B, 128, 224, 3]`"""
    return graphs.run("vae_decode", x=chunk, frame=np.tile(np.eye(2, dtype=np.float32)[frame], (len(chunk), 1)))[0]

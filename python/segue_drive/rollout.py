"""A stream through the exported graphs, as a server runs it: the reference for the order of calls and what is fed back.

Per chunk: N denoise steps from noise, one clean write whose keys and values become the newest window block. All arrays are numpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnxruntime as ort

from .geometry import CONTEXT_NOISE, HEAD_DIM, MASKED, NUM_HEADS, NUM_LAYERS, NUM_TOKENS, SAMPLES_PER_CONTROL, TOKEN_DIM, WINDOW_CHUNKS
from .synth import NUM_BINS, neutral_control
from .transformer import time_frequencies
from .vocabulary import encode_prompt


def open_session(path: Path) -> ort.InferenceSession:
    """One thread, no spinning, denormals as zero: the options the server uses."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class DriveGraphs:
    """The graphs of a weights folder, opened on first use, called by name with keyword arguments."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sessions: dict[str, ort.InferenceSession] = {}

    def session(self, name: str) -> ort.InferenceSession:
        if name not in self._sessions:
            self._sessions[name] = open_session(self._folder / f"{name}.onnx")
        return self._sessions[name]

    def run(self, name: str, **inputs: np.ndarray) -> list[np.ndarray]:
        return self.session(name).run(None, inputs)


@dataclass
class StreamState:
    """All that one stream (or a batch of them) carries from chunk to chunk."""

    batch: int
    chunk_index: int = 0
    prev: np.ndarray = field(init=False)
    t_prev: np.ndarray = field(init=False)
    window: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)  # newest last

    def __post_init__(self) -> None:
        self.prev = np.zeros((self.batch, NUM_TOKENS, TOKEN_DIM), np.float32)
        self.t_prev = np.ones((self.batch, 1), np.float32)

    def window_inputs(self) -> dict[str, np.ndarray]:
        missing = WINDOW_CHUNKS - len(self.window)
        empty = np.zeros((self.batch, NUM_LAYERS, NUM_HEADS, NUM_TOKENS, HEAD_DIM), np.float32)
        blocks = [(empty, empty)] * missing + self.window
        mask = np.zeros((self.batch, 1, 1, WINDOW_CHUNKS), np.float32)
        mask[..., :missing] = MASKED
        inputs = {"window_mask": mask}
        for i, (keys, values) in enumerate(blocks):
            inputs[f"k{i}"], inputs[f"v{i}"] = keys, values
        return inputs

    def time_inputs(self) -> dict[str, np.ndarray]:
        angles = self.chunk_index * time_frequencies().numpy()
        return {name: np.tile(f(angles).astype(np.float32), (self.batch, 1)) for name, f in (("time_cos", np.cos), ("time_sin", np.sin))}


def encode_prompts(graphs: DriveGraphs, prompts: list[str]) -> dict[str, np.ndarray]:
    ids = np.array([encode_prompt(prompt) for prompt in prompts], np.int64)
    return dict(zip(("tk", "tv", "tmask"), graphs.run("text_encoder", ids=ids)))


def noise_levels(num_steps: int) -> np.ndarray:
    return np.linspace(1, 0, num_steps + 1, dtype=np.float32)


def denoise_chunk(
    graphs: DriveGraphs, state: StreamState, text: dict[str, np.ndarray], steer: np.ndarray, speed: np.ndarray, eps: np.ndarray, num_steps: int,
    pin: np.ndarray | None = None, pin_frames: np.ndarray | None = None, adapter: dict[str, np.ndarray] | None = None,
) -> np.ndarray:
    """The finished chunk `[B, 32, 128]`. steer, speed int64 `[B, 1]`; `pin` keeps what was already seen of it (see `DenoiseStep`); `adapter`:
    `Adapter.graph_inputs`, without it the plain graph runs."""
    shared = {
        "eps": eps, "prev": state.prev, "pin": np.zeros_like(eps) if pin is None else pin, "t_prev": state.t_prev, "steer": steer, "speed": speed,
        "pin_frames": np.zeros((state.batch, 2), np.float32) if pin_frames is None else pin_frames, **state.time_inputs(), **text, **state.window_inputs(),
        **(adapter or {}),
    }
    x, levels = eps, noise_levels(num_steps)
    for t, t_next in zip(levels[:-1], levels[1:]):
        x = graphs.run(adapted("denoise_step", adapter), x=x, t=np.full((state.batch, 1), t), t_next=np.full((state.batch, 1), t_next), **shared)[0]
    return x


def adapted(name: str, adapter: dict[str, np.ndarray] | None) -> str:
    return name if adapter is None else f"{name}_adapted"


def write_chunk(
    graphs: DriveGraphs, state: StreamState, text: dict[str, np.ndarray], steer: np.ndarray, speed: np.ndarray, x: np.ndarray, eps: np.ndarray,
    adapter: dict[str, np.ndarray] | None = None,
) -> None:
    """Makes the chunk `x` part of the state."""
    keys, values, state.prev = graphs.run(
        adapted("clean_write", adapter), x=x, eps=eps, prev=state.prev, t_prev=state.t_prev, steer=steer, speed=speed, **state.time_inputs(), **text,
        **state.window_inputs(), **(adapter or {}),
    )
    state.t_prev = np.full((state.batch, 1), CONTEXT_NOISE, np.float32)
    state.window = [*state.window, (keys, values)][-WINDOW_CHUNKS:]
    state.chunk_index += 1


def roll_out(
    graphs: DriveGraphs, prompts: list[list[str]], actions: np.ndarray, noise: Iterator[np.ndarray], num_steps: int = 2, start: np.ndarray | None = None,
    adapter: dict[str, np.ndarray] | None = None,
) -> np.ndarray:
    """Latents `[N, B, 32, 128]` of N chunks. prompts `[N][B]`; actions int64 `[N, B, 2]` (steer, speed index); `noise` yields `[B, 32, 128]`
    twice a chunk (denoise, write). `start [B, 32, 128]` replaces the first chunk (a start bank entry)."""
    state = StreamState(len(prompts[0]))
    text, last, out = {}, None, []
    for i, now in enumerate(prompts):
        if now != last:
            text, last = encode_prompts(graphs, now), now
        steer, speed = actions[i][:, :1], actions[i][:, 1:]
        eps = next(noise)
        x = start if i == 0 and start is not None else denoise_chunk(graphs, state, text, steer, speed, eps, num_steps, adapter=adapter)
        write_chunk(graphs, state, text, steer, speed, x, next(noise), adapter)
        out.append(x)
    return np.stack(out)


def decode(graphs: DriveGraphs, chunk: np.ndarray) -> np.ndarray:
    """Chunk `[B, 32, 128]` -> uint8 frames `[B, 2, 128, 224, 3]`"""
    batch = len(chunk)
    return np.stack([graphs.run("vae_decode", x=chunk, frame=np.tile(np.eye(2, dtype=np.float32)[f], (batch, 1)))[0] for f in range(2)], 1)


class SoundStream:
    """PCM of consecutive frames of one batch of streams."""

    def __init__(self, graphs: DriveGraphs, batch: int, seed: int = 0) -> None:
        self._graphs = graphs
        self._rng = np.random.default_rng(seed)
        self._batch = batch
        self._phase = np.zeros((batch, 1), np.float32)
        self.control = np.tile(neutral_control(), (batch, 1))
        self._tail = np.zeros((batch, SAMPLES_PER_CONTROL), np.float32)

    def frame(self, chunk: np.ndarray, frame: int) -> np.ndarray:
        """int16 `[B, 2000]`"""
        noise = self._rng.random((self._batch, 8, NUM_BINS), np.float32)
        pcm, self._phase, self.control, self._tail = self._graphs.run(
            "audio_synth", x=chunk, frame=np.tile(np.eye(2, dtype=np.float32)[frame], (self._batch, 1)), phase=self._phase,
            control=self.control, tail=self._tail, noise=noise,
        )
        return pcm

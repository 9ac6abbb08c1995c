"""Our graphs against another set of graphs for the same work, on the same core in the same minutes.

Frames a second depend on the core and on who shares it; their ratio, of rounds that alternate, hardly does. The other set is a folder of ONNX files with
`chunk.json`: `{"frames": 2, "calls": {"step.onnx": 2, "write.onnx": 1, "decode.onnx": 1}}`, what one chunk of it takes. A folder without that file is an
earlier version of our own weights. Sound is left out: not every set makes it in a graph.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime as ort

from ..geometry import FRAMES_PER_CHUNK
from ..rollout import open_session
from .lines import Line, number_line
from .streams import NUM_STEPS

ROUNDS, WARM_ROUNDS = 60, 5
OURS = {"frames": FRAMES_PER_CHUNK, "calls": {"denoise_step.onnx": NUM_STEPS, "clean_write.onnx": 1, "vae_decode.onnx": FRAMES_PER_CHUNK}}
MIDDLE_LEVEL = 0.5  # of noise: what a `[B, 1]` input is given


def plausible_inputs(session: ort.InferenceSession, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A batch of one for any graph: how long it takes depends on shapes alone. Masks let everything through."""
    inputs = {}
    for value in session.get_inputs():
        shape = [size if isinstance(size, int) else 1 for size in value.shape]
        if value.type == "tensor(int64)":
            inputs[value.name] = np.ones(shape, np.int64)
        elif value.type != "tensor(float)":
            raise TypeError(f"input {value.name} is {value.type}: only float and int64 are known here")
        elif "mask" in value.name:
            inputs[value.name] = np.zeros(shape, np.float32)
        elif shape == [1, 1]:
            inputs[value.name] = np.full(shape, MIDDLE_LEVEL, np.float32)
        else:
            inputs[value.name] = rng.standard_normal(shape, np.float32)
    return inputs


class ChunkOfGraphs:
    def __init__(self, folder: Path) -> None:
        described = folder / "chunk.json"
        plan = json.loads(described.read_text()) if described.exists() else OURS
        self.frames = int(plan["frames"])
        self._calls = [(open_session(folder / file), count) for file, count in plan["calls"].items()]
        rng = np.random.default_rng(0)
        self._inputs = [plausible_inputs(session, rng) for session, _ in self._calls]

    def seconds(self) -> float:
        """Time on the core that one chunk takes. Each graph runs once beforehand, so that the other set's weights are out of the cache for neither."""
        total = 0.0
        for (session, count), inputs in zip(self._calls, self._inputs):
            session.run(None, inputs)
            start = time.thread_time()
            for _ in range(count):
                session.run(None, inputs)
            total += time.thread_time() - start
        return total


def rounds(ours: ChunkOfGraphs, other: ChunkOfGraphs, count: int) -> Iterator[tuple[float, float]]:
    """Frames a second of thread time, ours and the other's; who goes first alternates."""
    for turn in range(count):
        order = (ours, other) if turn % 2 == 0 else (other, ours)
        spans = {id(chunk): chunk.seconds() for chunk in order}
        yield ours.frames / spans[id(ours)], other.frames / spans[id(other)]


def measure_ratio(weights: Path, baseline: Path, count: int = ROUNDS) -> list[Line]:
    ours, other = ChunkOfGraphs(weights), ChunkOfGraphs(baseline)
    speeds = np.array(list(rounds(ours, other, WARM_ROUNDS + count))[WARM_ROUNDS:])
    low, middle, high = np.quantile(speeds[:, 0] / speeds[:, 1], [0.25, 0.5, 0.75])
    fast = np.sort(speeds, 0)[-max(1, count // 10) :].mean(0)
    note = f"quartiles {low:.3f} to {high:.3f}; fastest tenth {fast[0]:.1f} against {fast[1]:.1f} frames/s of thread time, pictures alone"
    return [
        number_line("speed against the baseline's graphs, same core, alternating", float(middle), "ratio of frames/s, median of rounds", count=count, note=note),
        number_line("speed against the baseline's graphs, fastest tenth of each", float(fast[0] / fast[1]), "ratio of frames/s", count=count),
    ]

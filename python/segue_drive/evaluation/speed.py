"""How long the units of work take on one thread, in the served configuration."""

from __future__ import annotations

import os
import time

import numpy as np

from ..geometry import FRAMES_PER_CHUNK
from ..rollout import DriveGraphs, SoundStream, StreamState, denoise_chunk, encode_prompts, write_chunk
from .lines import Line, number_line
from .streams import NUM_STEPS, decode_frame

WARM_CHUNKS, TIMED_CHUNKS = 10, 60


def measure_speed(graphs: DriveGraphs) -> list[Line]:
    """Frames a second of one stream on one thread: by the median and by the fastest tenth, which is what an undisturbed core does."""
    rng = np.random.default_rng(0)
    state, text, sound = StreamState(1), encode_prompts(graphs, ["drive through the city at night with rain"]), SoundStream(graphs, 1)
    steer, speed = np.ones((1, 1), np.int64), np.full((1, 1), 2)
    normal = lambda: rng.standard_normal((1, 32, 128), np.float32)  # noqa: E731
    times: dict[str, list[float]] = {"denoise step": [], "clean write": [], "picture decode": [], "sound": []}
    for chunk in range(WARM_CHUNKS + TIMED_CHUNKS):
        marks = [time.perf_counter()]
        x = denoise_chunk(graphs, state, text, steer, speed, normal(), NUM_STEPS)
        marks.append(time.perf_counter())
        write_chunk(graphs, state, text, steer, speed, x, normal())
        marks.append(time.perf_counter())
        for frame in range(FRAMES_PER_CHUNK):
            decode_frame(graphs, x, frame)
        marks.append(time.perf_counter())
        for frame in range(FRAMES_PER_CHUNK):
            sound.frame(x, frame)
        marks.append(time.perf_counter())
        if chunk >= WARM_CHUNKS:
            for values, span in zip(times.values(), np.diff(marks)):
                values.append(float(span) * 1e3)
    whole = np.sum(list(times.values()), 0)
    fast = float(np.sort(whole)[: TIMED_CHUNKS // 10].mean())
    load = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores while measured"
    lines = [
        number_line("speed, fastest tenth of chunks", FRAMES_PER_CHUNK * 1e3 / fast, "frames/s on one core", at_least=70, count=TIMED_CHUNKS, note=load),
        number_line("speed, median chunk", FRAMES_PER_CHUNK * 1e3 / float(np.median(whole)), "frames/s on one core", count=TIMED_CHUNKS, note=load),
    ]
    calls = {"denoise step": NUM_STEPS, "clean write": 1, "picture decode": FRAMES_PER_CHUNK, "sound": FRAMES_PER_CHUNK}
    for name, values in times.items():
        unit = float(np.sort(values)[: TIMED_CHUNKS // 10].mean()) / calls[name]
        lines.append(number_line(f"unit of work: {name}", unit, "ms, fastest tenth", at_most=40, count=TIMED_CHUNKS * calls[name]))
    return lines

"""Given video: drives of the world, made into something else or gone on from, judged on decoded frames."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..evaluate import Judge
from ..geometry import FRAMES_PER_CHUNK, NUM_TOKENS, TOKEN_DIM
from ..rollout import DriveGraphs, StreamState, decode, denoise_chunk, encode_prompts, write_chunk
from ..training.held_out import HeldOut
from ..vocabulary import canonical_prompt
from ..world import Attributes
from ..world.clip import clip
from .cases import chunk_noise
from .lines import Line, number_line, share_line
from .streams import NUM_STEPS, decode_frame

BATCH = 4
CHUNKS = 12  # two seconds
GIVEN, FOLLOWING = 7, 6  # a whole window, and a second more
STRENGTHS = (0.5, 0.75)
UNKNOWN_ACTION = (1, 2)  # indices of straight on and the usual speed: what is held where nobody says how a video was driven


def encode_chunk(graphs: DriveGraphs, frames: np.ndarray, like: np.ndarray | None, level: float, eps: np.ndarray) -> np.ndarray:
    """uint8 `[B, 2, 128, 224, 3]` -> chunk `[B, 32, 128]`, recoloured like `like` and noised to `level`, or as it is."""
    batch = len(frames)
    x = np.zeros((batch, NUM_TOKENS, TOKEN_DIM), np.float32)
    shares = [np.full((batch, 1), share, np.float32) for share in (0 if like is None else 1, level)]
    for i in range(FRAMES_PER_CHUNK):
        frame = np.tile(np.eye(FRAMES_PER_CHUNK, dtype=np.float32)[i], (batch, 1))
        x = graphs.run("video_encode", rgb=frames[:, i], frame=frame, before=x, like=np.zeros_like(x) if like is None else like, recolour=shares[0], eps=eps, level=shares[1])[0]
    return x


def denoise_from(graphs: DriveGraphs, state: StreamState, text: dict[str, np.ndarray], action: tuple[np.ndarray, np.ndarray], x: np.ndarray, eps: np.ndarray, level: float) -> np.ndarray:
    """The steps from `level` on: declared levels, but that the first begins at `level`."""
    shared = {
        "eps": eps, "prev": state.prev, "pin": np.zeros_like(eps), "pin_frames": np.zeros((state.batch, 2), np.float32), "t_prev": state.t_prev,
        "steer": action[0], "speed": action[1], **state.time_inputs(), **state.window_inputs(), **text,
    }
    for step in range(min(NUM_STEPS - 1, int((1 - level) * NUM_STEPS)), NUM_STEPS):
        t, t_next = min(level, 1 - step / NUM_STEPS), 1 - (step + 1) / NUM_STEPS
        x = graphs.run("denoise_step", x=x, t=np.full((state.batch, 1), t, np.float32), t_next=np.full((state.batch, 1), t_next, np.float32), **shared)[0]
    return x


def layout(frames: np.ndarray) -> np.ndarray:
    """Brightness of 16 x 16 tiles against the mean of their row, `[B, 112]`: what is left and right of what, whatever the light."""
    grey = frames.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)
    tiles = grey.reshape(len(frames), 8, 16, 14, 16).mean((2, 4))
    return (tiles - tiles.mean(2, keepdims=True)).reshape(len(frames), -1)


def correlation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = a - a.mean(1, keepdims=True), b - b.mean(1, keepdims=True)
    return (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1) + 1e-9)


class GivenVideo:
    def __init__(self, graphs: DriveGraphs, judge: Judge, held_out: HeldOut, cases: int, seed: int) -> None:
        self.graphs, self.judge, self.held_out, self.cases, self.seed = graphs, judge, held_out, cases, seed

    def measure(self) -> Iterator[Line]:
        yield from self._continue()
        for strength in STRENGTHS:
            yield from self._transform(strength, known=False)
        yield from self._transform(STRENGTHS[-1], known=True)

    def _drives(self, first: int, chunks: int) -> tuple[np.random.Generator, list[Attributes], np.ndarray, np.ndarray, np.ndarray]:
        """Random generator, attributes, turns, speeds and frames `[B, chunks, 2, 128, 224, 3]` of a batch of drives."""
        rng = np.random.default_rng((self.seed, 300, first))
        count = min(BATCH, self.cases - first)
        shown = [self.held_out.training_attributes(rng) for _ in range(count)]
        turns, speeds = rng.choice((-1, 1), count), rng.integers(1, 4, count)
        frames = [clip(int(rng.integers(1 << 31)), a, int(t), int(s), chunks * FRAMES_PER_CHUNK) for a, t, s in zip(shown, turns, speeds)]
        return rng, shown, turns, speeds, np.stack(frames).reshape(count, chunks, FRAMES_PER_CHUNK, *frames[0].shape[1:])

    def _actions(self, chunk: int, turns: np.ndarray, speeds: np.ndarray, known: bool) -> tuple[np.ndarray, np.ndarray]:
        if not known:
            return tuple(np.full((len(turns), 1), value, np.int64) for value in UNKNOWN_ACTION)  # type: ignore[return-value]
        return (turns * (chunk >= 2) + 1).astype(np.int64)[:, None], speeds.astype(np.int64)[:, None]

    def _transform(self, strength: float, known: bool) -> list[Line]:
        right, sign, own, other = [], [], [], []
        for first in range(0, self.cases, BATCH):
            rng, _, turns, speeds, drives = self._drives(first, CHUNKS)
            wanted = np.array([self.held_out.training_attributes(rng).as_tuple() for _ in turns])
            text = encode_prompts(self.graphs, [canonical_prompt(tuple(int(v) for v in state)) for state in wanted])
            like = self.graphs.run("start_bank", index=(wanted @ np.array([16, 4, 1]))[:, None])[0]
            state, noise = StreamState(len(turns)), [np.random.default_rng((self.seed, 301, first + i)) for i in range(len(turns))]
            for chunk in range(CHUNKS):
                action, eps = self._actions(chunk, turns, speeds, known), chunk_noise(noise)
                x = denoise_from(self.graphs, state, text, action, encode_chunk(self.graphs, drives[:, chunk], like, strength, eps), eps, strength)
                write_chunk(self.graphs, state, text, *action, x, chunk_noise(noise))
            made, given = decode_frame(self.graphs, x, 1), drives[:, -1, 1]
            answers, curve = self.judge(made)
            right += (answers == wanted).tolist()
            sign += (np.sign(curve) == turns).tolist()
            own += correlation(layout(made), layout(given)).tolist()
            other += correlation(layout(made), layout(np.roll(given, 1, 0))).tolist()
        name = f"transform at {strength:g}{', driven as it was' if known else ''}"
        return [
            *(share_line(f"{name}: {attribute} that was asked for, after 2 s", sum(r[i] for r in right), len(right)) for i, attribute in enumerate(("place", "time", "weather"))),
            share_line(f"{name}: all three", sum(all(r) for r in right), len(right)),
            share_line(f"{name}: sign of the road's curve kept", int(sum(sign)), len(sign)),
            number_line(f"{name}: layout against the given frame", float(np.mean(own)), "correlation", count=len(own)),
            number_line(f"{name}: layout against another drive's frame", float(np.mean(other)), "correlation", count=len(other)),
        ]

    def _continue(self) -> list[Line]:
        kept, near, far = [], [], []
        for first in range(0, self.cases, BATCH):
            _, shown, turns, speeds, drives = self._drives(first, GIVEN)
            text = encode_prompts(self.graphs, [canonical_prompt(a.as_tuple()) for a in shown])
            state, noise = StreamState(len(turns)), [np.random.default_rng((self.seed, 302, first + i)) for i in range(len(turns))]
            for chunk in range(GIVEN + FOLLOWING):
                action = self._actions(chunk, turns, speeds, True)
                if chunk < GIVEN:
                    x = encode_chunk(self.graphs, drives[:, chunk], None, 0, np.zeros((len(turns), NUM_TOKENS, TOKEN_DIM), np.float32))
                else:
                    x = denoise_chunk(self.graphs, state, text, *action, chunk_noise(noise), NUM_STEPS)
                write_chunk(self.graphs, state, text, *action, x, chunk_noise(noise))
                if chunk == GIVEN:
                    following, last = decode(self.graphs, x)[:, 0].astype(np.float32), drives[:, -1, -1].astype(np.float32)
                    near += np.abs(following - last).mean((1, 2, 3)).tolist()
                    far += np.abs(following - np.roll(last, 1, 0)).mean((1, 2, 3)).tolist()
            answers, _ = self.judge(decode_frame(self.graphs, x, 1))
            kept += (answers[:, :2] == np.array([a.as_tuple()[:2] for a in shown])).all(1).tolist()
        return [
            share_line("continue: place and time of the clip a second after it", sum(kept), len(kept)),
            share_line("continue: the first frame is nearer to the clip's last than to another clip's", sum(n < f for n, f in zip(near, far)), len(near)),
            number_line("continue: the first frame against the clip's last", float(np.mean(near)), "grey levels of 255", count=len(near)),
        ]
